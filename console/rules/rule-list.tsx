import type { ComponentChildren } from 'preact';
import type { AnswerOf } from '../api/request.ts';
import { hrefOf } from '../frame/route.ts';
import { Badge } from '../parts/badge.tsx';
import { Card } from '../parts/card.tsx';
import { plural } from '../parts/format.ts';
import { Empty } from '../parts/notice.tsx';
import { Table } from '../parts/table.tsx';
import { makeVisible, Text } from '../parts/text.tsx';

type RulesAnswer = AnswerOf<'GET /api/v1/rules'>;

/** The rules of the configuration, in their order. */
export function RuleList({ rules }: { readonly rules: RulesAnswer['rules'] }) {
  return (
    <Card title="Rules of the configuration" aside={plural(rules.length, 'rule')} isFlush>
      {rules.length === 0 ? (
        <Empty title="There are no rules">
          <p>
            Every tool of a server is allowed unless the server restricts it. Add rules under <code>rules</code> in the
            configuration file.
          </p>
        </Empty>
      ) : (
        <Table
          caption="Rules"
          isStacked
          rows={rules}
          keyOf={({ id }) => id}
          columns={[
            { label: 'Rule', isTitle: true, cell: ({ id }) => <Text value={id} /> },
            { label: 'Effect', cell: ({ effect }) => <Effect effect={effect} /> },
            { label: 'Tools', cell: ({ tools }) => <Patterns patterns={tools} /> },
            { label: 'Condition', cell: ({ when }) => <Condition when={when} /> },
          ]}
        />
      )}
      {rules.length > 0 && (
        <p class="rules-note muted">
          A rule that denies always wins. If rules that allow name a tool, one of them has to apply. Their order does
          not matter.
        </p>
      )}
    </Card>
  );
}

function Condition({ when }: { readonly when: string | null }) {
  if (when === null) return <span class="muted">always</span>;
  return (
    <code>
      <Text value={when} />
    </code>
  );
}

export function Effect({ effect }: { readonly effect: string }) {
  return <Badge tone={effect === 'deny' ? 'bad' : 'good'}>{effect}</Badge>;
}

/** The restrictions that each server has of its own. Servers without any are left out. */
export function ServerRestrictions({ servers }: { readonly servers: RulesAnswer['servers'] }) {
  const restricted = servers.filter((server) => restrictionsOf(server).length > 0);
  return (
    <Card title="Restrictions of servers" aside={plural(restricted.length, 'server')} isFlush>
      {restricted.length === 0 ? (
        <Empty title="No server restricts its tools">
          <p>
            A server can allow or deny tools, require permissions, or have calls confirmed, under <code>tools</code> in
            its configuration.
          </p>
        </Empty>
      ) : (
        <Table
          caption="Restrictions of servers"
          isStacked
          rows={restricted}
          keyOf={({ server }) => server}
          columns={[
            {
              label: 'Server',
              isTitle: true,
              cell: ({ server }) => (
                <a href={hrefOf(['servers', server])}>
                  <Text value={server} />
                </a>
              ),
            },
            {
              label: 'Restrictions',
              cell: (server) => (
                <dl class="rules-restrictions">
                  {restrictionsOf(server).map(([name, value]) => (
                    <div key={name}>
                      <dt>{name}</dt>
                      <dd>{value}</dd>
                    </div>
                  ))}
                </dl>
              ),
            },
          ]}
        />
      )}
    </Card>
  );
}

type Restrictions = RulesAnswer['servers'][number];

/** Lists what restricts the tools of a server, in the order of its effect. */
function restrictionsOf(server: Restrictions): readonly (readonly [name: string, value: ComponentChildren])[] {
  const { allow, deny, confirm, permissions, instead, hideReplaced } = server;
  const lists = [
    // All tools are allowed unless the server says otherwise.
    ['Only these tools', allow.filter((pattern) => pattern !== '*')],
    ['Not these tools', deny],
    ['A person confirms', confirm],
  ] as const;
  const rows = lists
    .filter(([, patterns]) => patterns.length > 0)
    .map(([name, patterns]) => [name, <Patterns patterns={patterns} />] as const);
  const pairs = [
    ['Permission needed', permissions],
    [hideReplaced ? 'Replaced and refused' : 'Replaced by', instead],
  ] as const;
  return [...rows, ...pairs.flatMap(([name, values]) => describePairs(name, values))];
}

function describePairs(name: string, values: Readonly<Record<string, string>>) {
  const entries = Object.entries(values);
  if (entries.length === 0) return [];
  const list = (
    <ul>
      {entries.map(([pattern, value]) => (
        <li key={pattern}>
          <code>{makeVisible(pattern)}</code> → <code>{makeVisible(value)}</code>
        </li>
      ))}
    </ul>
  );
  return [[name, list] as const];
}

function Patterns({ patterns }: { readonly patterns: readonly string[] }) {
  return (
    <span class="rules-patterns">
      {patterns.map((pattern) => (
        <code key={pattern}>
          <Text value={pattern} />
        </code>
      ))}
    </span>
  );
}
