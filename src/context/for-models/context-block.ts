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

/** Limits of a block, which a model reads beside its real task. */
const maxPolicyText = 2000;
const maxBlockText = 12_000;
const changeNote = 'The policies or objectives of this session have changed. This block replaces the earlier one.\n\n';

interface BlockForm {
  /** Leaves nothing out. */
  readonly isWhole?: boolean;
  /** The reader can call the tool that returns the whole block. Only then the block names it. */
  readonly hasContextTool?: boolean;
  /** The reader has got another block before. */
  readonly isChange?: boolean;
}

/** Renders the block for the model. */
export function renderBlock({ policies, objectives }: EffectiveContext, form: BlockForm = {}): string {
  const { isWhole = false, hasContextTool = true, isChange = false } = form;
  const budget = { left: isWhole ? Number.POSITIVE_INFINITY : maxBlockText };
  const readMore = (what: string) => (hasContextTool ? `: session_context has ${what}` : '');
  const cutNote = `… (cut here${readMore('the whole text')})`;
  const restNote = (count: number) => `… (${count} more${readMore('them all')})`;
  const renderText = (text: string) => indentLines(isWhole ? text : shortenText(text, cutNote));
  const sections = [
    writeSection('Policies', { budget, restNote }, policies, ({ mode, name, text, scope }) => {
      return `[${mode}] ${name}: ${renderText(text)} (${isInherited(scope) ? 'inherited' : 'local'})`;
    }),
    writeSection('Objectives', { budget, restNote }, objectives, ({ text }) => renderText(text)),
  ].filter((lines) => lines !== undefined);
  const body = sections.length === 0 ? 'No policies or objectives configured.' : sections.join('\n\n');
  return addFrame(isChange ? `${changeNote}${body}` : body);
}

/** Computes a short id of a text, to tell one version from another. */
export function digestText(text: string): string {
  return createHash('sha256').update(text).digest('hex').slice(0, 16);
}

function addFrame(body: string): string {
  return `${headerLine}\n\n${body}\n\n${footerLine}`;
}

interface SectionSpace {
  readonly budget: { left: number };
  restNote(count: number): string;
}

function writeSection<T>(
  title: string,
  { budget, restNote }: SectionSpace,
  items: readonly T[],
  show: (item: T) => string,
): string | undefined {
  if (items.length === 0) return undefined;
  const lines = [`${title}:`];
  for (const [index, item] of items.entries()) {
    const line = `  - ${show(item)}`;
    budget.left -= line.length;
    if (budget.left < 0) {
      lines.push(`  - ${restNote(items.length - index)}`);
      break;
    }
    lines.push(line);
  }
  return lines.join('\n');
}

function shortenText(text: string, cutNote: string): string {
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
  readonly kind: 'block' | 'policy';
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
