import type { AnswerOf } from '../api/request.ts';
import { Badge, type Tone } from '../parts/badge.tsx';
import { Notice } from '../parts/notice.tsx';
import { CopyButton } from '../parts/same-data.tsx';
import { makeVisible } from '../parts/text.tsx';
import { describeScope } from './scope.ts';

export type Effective = AnswerOf<'GET /api/v1/policies/effective'>;
type JudgedPolicy = Pick<Effective['policies'][number], 'outcome' | 'locked' | 'by'>;

const tones: Readonly<Record<JudgedPolicy['outcome'], Tone>> = {
  given: 'good',
  disabled: 'plain',
  replaced: 'warn',
  'locked out': 'warn',
};

export function OutcomeBadge({ of }: { readonly of: Pick<JudgedPolicy, 'outcome'> }) {
  return <Badge tone={tones[of.outcome]}>{of.outcome}</Badge>;
}

/** Says why a policy has its outcome. */
export function explainOutcome({ outcome, by, locked }: JudgedPolicy): string {
  const other = by === null ? 'Another scope' : describeScope(by);
  if (outcome === 'replaced') return `${other} has a policy of the same name, which replaces it.`;
  if (outcome === 'locked out') return `${other} has a locked policy of the same name.`;
  if (outcome === 'disabled') return 'It is kept, but not used.';
  return locked ? 'It is locked: narrower scopes cannot replace it.' : 'No narrower scope replaces it.';
}

/** Shows the text exactly as the model gets it. Characters that hide or reorder text are shown as their code. */
export function Block({
  text,
  marked: [before, middle, after] = [text, '', ''],
}: {
  readonly text: string;
  /** The same text in three parts, of which the middle one is marked. */
  readonly marked?: readonly [before: string, middle: string, after: string];
}) {
  if (text === '') return <Notice>The model gets no text, because no policy and no objective applies.</Notice>;
  return (
    <div class="policies-block">
      <div class="policies-block-head">
        <span class="muted">{text.length} characters</span>
        <CopyButton text={text} what="the text for the model" />
      </div>
      {/* biome-ignore lint/a11y/noNoninteractiveTabindex: a region that scrolls must be reachable by keyboard */}
      <section class="policies-block-text" aria-label="Text for the model" tabIndex={0}>
        <pre>
          <bdi>
            {makeVisible(before, '\n\t')}
            {middle !== '' && <mark class="policies-draft">{makeVisible(middle, '\n\t')}</mark>}
            {makeVisible(after, '\n\t')}
          </bdi>
        </pre>
      </section>
    </div>
  );
}
