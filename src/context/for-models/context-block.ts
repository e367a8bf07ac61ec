import { createHash, sign } from 'node:crypto';
import type { SigningKeys } from '../for-tools/signing-keys.ts';
import { isInherited, type Objective, type Policy } from './policy.ts';

const blockMetaKey = 'ambit/context-block';

/** Whose block it is, and what it is. */
interface BlockClaims {
  readonly sessionId: string;
  readonly userId: string;
  readonly kind: 'block' | 'notice' | 'policy';
}

export type BlockSigner = (text: string, facts: BlockClaims) => string;

/** What somebody is given: policies in the order they are read, then objectives. */
export interface EffectiveContext {
  readonly policies: readonly Policy[];
  readonly objectives: readonly Objective[];
}

export const headerLine = '═══ SESSION CONTEXT (auto-injected) ═══';
const footerLine = '═'.repeat(headerLine.length);

/** A block is read by a model that came for something else: beyond this it is told where the rest is. */
const maxPolicyText = 2000;
const maxBlockText = 12_000;
const cutNote = '… (cut here: session_context has the whole text)';

/** The block as the model reads it; `whole` leaves nothing out. */
export function renderBlock({ policies, objectives }: EffectiveContext, whole = false): string {
  const room = { left: whole ? Number.POSITIVE_INFINITY : maxBlockText };
  const renderText = (text: string) => indentLines(whole ? text : shortenText(text));
  const sections = [
    writeSection('Policies', room, policies, ({ mode, name, text, scope }) => {
      return `[${mode}] ${name}: ${renderText(text)} (${isInherited(scope) ? 'inherited' : 'local'})`;
    }),
    writeSection('Objectives', room, objectives, ({ text }) => renderText(text)),
  ].filter((lines) => lines !== undefined);
  return addFrame(sections.length === 0 ? 'No policies or objectives configured.' : sections.join('\n\n'));
}

/** For whoever was given the block before. */
export function renderNotice(): string {
  return addFrame(
    'The policies or objectives of this session have changed since they were given here.\n' +
      'Call session_context with "session": "current" to read them as they are now.',
  );
}

/** What tells one text from another. */
export function computeRevision(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}

function addFrame(body: string): string {
  return `${headerLine}\n\n${body}\n\n${footerLine}`;
}

function writeSection<T>(
  title: string,
  room: { left: number },
  items: readonly T[],
  show: (item: T) => string,
): string | undefined {
  if (items.length === 0) return undefined;
  const lines = [`${title}:`];
  for (const [index, item] of items.entries()) {
    const line = `  - ${show(item)}`;
    room.left -= line.length;
    if (room.left < 0) {
      lines.push(`  - … (${items.length - index} more: session_context has them all)`);
      break;
    }
    lines.push(line);
  }
  return lines.join('\n');
}

function shortenText(text: string): string {
  const points = [...text];
  return points.length <= maxPolicyText ? text : `${points.slice(0, maxPolicyText).join('')}${cutNote}`;
}

/** Further lines of a text stay visibly within it, whatever ends them. */
function indentLines(text: string): string {
  return text.trim().replaceAll(/\r\n|[\n\v\f\r\u0085\u2028\u2029]/g, '\n    ');
}

/**
 * Makes the content block that carries a text, as JSON: what it says and to whom can be proven by the keys published. A
 * server without keys says only what it is.
 */
export function createBlockSigner(
  keys: Pick<SigningKeys, 'current'> | undefined,
  issuer: string,
  now: () => number = Date.now,
): BlockSigner {
  return (text, { sessionId, userId, kind }) => {
    const sha256 = createHash('sha256').update(text).digest('hex');
    const writeContentBlock = (facts: object) =>
      JSON.stringify({ type: 'text', text, _meta: { [blockMetaKey]: facts } });
    if (keys === undefined) return writeContentBlock({ kind, sha256 });
    const { kid, key } = keys.current();
    const head = encodeJson({ alg: 'EdDSA', typ: 'ambit-block+jwt', kid });
    const iat = Math.floor(now() / 1000);
    const signed = `${head}.${encodeJson({ iss: issuer, iat, sub: userId, sid: sessionId, kind, sha256 })}`;
    const token = `${signed}.${sign(null, Buffer.from(signed, 'latin1'), key).toString('base64url')}`;
    return writeContentBlock({ kind, sha256, token });
  };
}

function encodeJson(claims: object): string {
  return Buffer.from(JSON.stringify(claims)).toString('base64url');
}
