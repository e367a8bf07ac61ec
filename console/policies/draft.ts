import {
  type Draft,
  type JudgedDraft,
  judgePolicies,
  listLevels,
  type Reader,
  sortForReading,
} from './judge-policies.ts';

/** What the gateway answers about a user, without the draft. */
interface Answer extends Reader {
  readonly policies: readonly Draft[];
  readonly block: string;
}

/** What a user would get if a policy were saved as it is now in the form. */
export interface DraftPreview {
  /** The outcome of the draft; undefined if its scope does not include the user. */
  readonly own: JudgedDraft | undefined;
  /** The text before the draft, the draft, and the text after it. Without the draft, all is in the first. */
  readonly parts: readonly [before: string, draft: string, after: string];
}

const policiesTitle = 'Policies:';
const objectivesTitle = 'Objectives:';
/** The limit of a text, as in the block that the gateway writes. */
const maxText = 2000;

/** Puts a draft into the answer about a user, with the same order and the same form as the gateway. */
export function previewDraft(answer: Answer, draft: Draft): DraftPreview {
  const { policies, block } = answer;
  const levels = listLevels(answer);
  const others = policies.filter(({ scope, name }) => scope !== draft.scope || name !== draft.name);
  const judged = judgePolicies([...others, draft], levels);
  const given = judged.filter(({ outcome }) => outcome === 'given').map(({ policy }) => policy);
  const ordered = sortForReading(given, levels);
  const at = ordered.indexOf(draft);
  const write = (some: readonly Draft[]) => some.map((each) => `${writeLine(each)}\n`).join('');
  const [head = '', ...end] = block.split('\n\n');
  const objectives = end.find((section) => section.startsWith(objectivesTitle));
  const foot = end.at(-1) ?? '';
  const hasBoth = ordered.length > 0 && objectives !== undefined;
  const rest = `${hasBoth ? '\n' : ''}${objectives === undefined ? '' : `${objectives}\n`}\n${foot}`;
  const own = judged.find(({ policy }) => policy === draft);
  if (ordered.length === 0) {
    const body = objectives === undefined ? 'No policies or objectives configured.\n' : '';
    return { own, parts: [`${head}\n\n${body}${rest}`, '', ''] };
  }
  const start = `${head}\n\n${policiesTitle}\n`;
  if (at === -1) return { own, parts: [`${start}${write(ordered)}${rest}`, '', ''] };
  return {
    own,
    parts: [`${start}${write(ordered.slice(0, at))}`, write([draft]), `${write(ordered.slice(at + 1))}${rest}`],
  };
}

function writeLine({ mode, name, text, scope }: Draft): string {
  return `  - [${mode}] ${name}: ${indent(shorten(text))} (${/^(?:user|workspace):/.test(scope) ? 'local' : 'inherited'})`;
}

function shorten(text: string): string {
  const points = [...text];
  if (points.length <= maxText) return text;
  return `${points.slice(0, maxText).join('')}… (cut here: session_context has the whole text)`;
}

function indent(text: string): string {
  return text.trim().replaceAll(/\r\n|[\n\v\f\r\u0085\u2028\u2029]/g, '\n    ');
}
