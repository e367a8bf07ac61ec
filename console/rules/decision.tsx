import type { AnswerOf } from '../api/request.ts';
import { Badge, type Tone } from '../parts/badge.tsx';
import { Table } from '../parts/table.tsx';
import { Text } from '../parts/text.tsx';
import { Effect } from './rule-list.tsx';

type Explanation = AnswerOf<'POST /api/v1/sessions/{id}/explain'>;

const outcomeTones: Readonly<Record<string, Tone>> = { holds: 'info', error: 'bad' };

/** A decision: the result first, then the facts and the rules that it is based on. */
export function Decision({ decision }: { readonly decision: Explanation }) {
  const { allowed, rule, reason, server, tool, claims, rules } = decision;
  // A rule of the configuration may have this id too.
  const isDefault = rule === 'default' && !rules.some(({ id }) => id === rule);
  return (
    <>
      <p class={allowed ? 'rules-result rules-allowed' : 'rules-result rules-denied'}>
        <strong>{allowed ? 'Allowed' : 'Denied'}</strong>
        <span>
          <Text value={reason} />
        </span>
      </p>
      <p class="muted">
        {isDefault ? (
          `${rules.length === 0 ? 'No rule names this tool' : 'No rule applies to this call'}, so the default decides about tool `
        ) : (
          <>
            Rule <code>{<Text value={rule} />}</code> decides about tool{' '}
          </>
        )}
        <code>{<Text value={tool} />}</code> of {server === 'ambit' ? 'Ambit' : <code>{<Text value={server} />}</code>}.
      </p>
      <div>
        <h3>Facts</h3>
        <Table
          caption="Facts that the decision is based on"
          isStacked
          rows={claims}
          keyOf={({ claim }) => claim}
          columns={[
            {
              label: 'Fact',
              isTitle: true,
              cell: ({ claim }) => (
                <code>
                  <Text value={claim} />
                </code>
              ),
            },
            {
              label: 'Value',
              cell: ({ value }) => <Text value={(typeof value === 'string' ? value : value.join(', ')) || 'none'} />,
            },
            { label: 'Source', cell: ({ source }) => <Text value={source} /> },
          ]}
        />
      </div>
      <div>
        <h3>{describeCount(rules.length)}</h3>
        {rules.length > 0 && (
          <Table
            caption="Rules that name this tool"
            isStacked
            rows={rules}
            keyOf={({ id }) => id}
            isMarked={({ id }) => id === rule}
            columns={[
              { label: 'Rule', isTitle: true, cell: ({ id }) => <Text value={id} /> },
              { label: 'Effect', cell: ({ effect }) => <Effect effect={effect} /> },
              {
                label: 'Condition',
                cell: ({ outcome, error }) => (
                  <span>
                    <Badge tone={outcomeTones[outcome] ?? 'plain'}>{outcome}</Badge>{' '}
                    {error !== undefined && <Text value={error} />}
                  </span>
                ),
              },
              {
                label: 'Facts it uses',
                from: 'tablet',
                cell: ({ claims: used }) => <Text value={used.join(', ') || 'none'} />,
              },
            ]}
          />
        )}
      </div>
    </>
  );
}

function describeCount(count: number): string {
  if (count === 0) return 'No rule names this tool';
  return count === 1 ? '1 rule names this tool' : `${count} rules name this tool`;
}
