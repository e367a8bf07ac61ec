import { createHash, sign } from 'node:crypto';
import type { SigningKeys } from '../for-tools/signing-keys.ts';
import { isInherited, type Objective, type Policy } from './policy.ts';

const blockMetaKey = 'ambit/context-block';

/** The context of one reader: policies in reading order, then objectives. */
export interface EffectiveContext {
  readonly policies: readonly Policy[];
  readonly objectives: readonly Objective[];
}

export const headerLine = '═══ SESSION CONTEXT (auto-injected) ═══';
const footerLine = '═'.repeat(headerLine.length);

/** Limits of a block, which a model reads beside its real task. The block names the tool that returns the rest. */
const maxPolicyText = 2000;
const maxBlockText = 12_000;
const cutNote = '… (cut here: session_context has the whole text)';

/** Renders the block for the model; `whole` leaves nothing out. */
export function renderBlock({ policies, objectives }: EffectiveContext, whole = false): string {
  const budget = { left: whole ? Number.POSITIVE_INFINITY : maxBlockText };
  const renderText = (text: string) => indentLines(whole ? text : shortenText(text));
  const sections = [
    writeSection('Policies', budget, policies, ({ mode, name, text, scope }) => {
      return `[${mode}] ${name}: ${renderText(text)} (${isInherited(scope) ? 'inherited' : 'local'})`;
    }),
    writeSection('Objectives', budget, objectives, ({ text }) => renderText(text)),
  ].filter((lines) => lines !== undefined);
  return addFrame(sections.length === 0 ? 'No policies or objectives configured.' : sections.join('\n\n'));
}

/** Renders the notice for a reader that already has the block. */
export function renderNotice(): string {
  return addFrame(
    'The policies or objectives of this session have changed since they were given here.\n' +
      'Call session_context with "session": "current" to read them as they are now.',
  );
}

/** Computes a short id of a text, to tell one version from another. */
export function digestText(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}

function addFrame(body: string): string {
  return `${headerLine}\n\n${body}\n\n${footerLine}`;
}

function writeSection<T>(
  title: string,
  budget: { left: number },
  items: readonly T[],
  show: (item: T) => string,
): string | undefined {
  if (items.length === 0) return undefined;
  const lines = [`${title}:`];
  for (const [index, item] of items.entries()) {
    const line = `  - ${show(item)}`;
    budget.left -= line.length;
    if (budget.left < 0) {
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

/** Indents further lines of a text, so that they visibly belong to it. */
function indentLines(text: string): string {
  return text.trim().replaceAll(/\r\n|[\n\v\f\r\u0085\u2028\u2029]/g, '\n    ');
}

interface BlockClaims {
  readonly sessionId: string;
  readonly userId: string;
  readonly kind: 'block' | 'notice' | 'policy';
}

export type BlockSigner = (text: string, facts: BlockClaims) => string;

/**
 * Creates the function that writes a text as a content block in JSON. The published keys prove the text and its
 * recipient. Without keys the block only names its kind.
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
