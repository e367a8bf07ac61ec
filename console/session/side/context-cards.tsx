import type { AnswerOf } from '../../api/request.ts';
import { useRequest } from '../../api/use-request.ts';
import { hrefOf } from '../../frame/route.ts';
import { Badge } from '../../parts/badge.tsx';
import { Card } from '../../parts/card.tsx';
import { formatDuration, formatTime } from '../../parts/format.ts';
import { Answer } from '../../parts/notice.tsx';
import { Text } from '../../parts/text.tsx';
import type { SessionPartProps } from '../session-view.tsx';

type Context = AnswerOf<'GET /api/v1/sessions/{id}/context'>;

const labels: Readonly<Record<string, string>> = {
  id: 'Id',
  name: 'Name',
  userId: 'User',
  agentId: 'Agent',
  workspaceId: 'Workspace',
  workspacePath: 'Folder',
  trustLevel: 'Trust level',
  permissions: 'Permissions',
  servers: 'Servers',
  ttlSeconds: 'Idle limit',
  endsAt: 'Ends at',
  parentId: 'Parent',
  task: 'Task',
  'quotas.callsPerMinute': 'Calls per minute',
  'quotas.burst': 'Calls at once',
  'quotas.concurrentCalls': 'Concurrent calls',
  'quotas.totalCalls': 'Calls in all',
  'quotas.totalBytes': 'Bytes in all',
};

/** The context of a session with the source of each value, its servers, and its permissions. */
export function ContextCards({ id, after }: SessionPartProps) {
  const context = useRequest('GET /api/v1/sessions/{id}/context', { id }, { after });
  return (
    <Answer of={context}>
      {(answer) => (
        <>
          <Card title="Context" aside={<Text value={answer.openedBy} />}>
            <ContextValues values={answer.values} />
          </Card>
          <Card title="Servers">
            <SessionServers servers={answer.servers} tools={answer.tools} />
          </Card>
          <Card title="Permissions">
            <Permissions permissions={answer.permissions} />
          </Card>
        </>
      )}
    </Answer>
  );
}

/** The values, with those of the same source together. */
function ContextValues({ values }: Pick<Context, 'values'>) {
  const shown = values.filter(({ name, value }) => value !== null && name !== 'id');
  const sources = [...new Set(shown.map(({ source }) => source))];
  return (
    <ul class="session-list">
      {sources.map((source) => (
        <li key={source}>
          <span class="session-small">
            {source === 'not given' ? (
              'Not given'
            ) : (
              <>
                From <Text value={source} />
              </>
            )}
          </span>
          <dl class="session-values">
            {shown
              .filter((value) => value.source === source)
              .map(({ name, value, limits }) => (
                <div key={name}>
                  <dt class="muted">{labels[name] ?? name}</dt>
                  <dd>
                    <Text value={formatValue(name, value)} />
                    {limits.map((limit) => (
                      <span key={limit} class="session-small">
                        <Text value={limit} />
                      </span>
                    ))}
                  </dd>
                </div>
              ))}
          </dl>
        </li>
      ))}
    </ul>
  );
}

function formatValue(name: string, value: unknown): string {
  if (name === 'endsAt' && typeof value === 'string') return formatTime(value);
  if (name === 'ttlSeconds' && typeof value === 'number') return formatDuration(value * 1000);
  if (typeof value === 'string') return value;
  if (Array.isArray(value)) return value.length === 0 ? 'none' : value.map((each) => formatValue('', each)).join(', ');
  return JSON.stringify(value);
}

function SessionServers({ servers, tools }: Pick<Context, 'servers' | 'tools'>) {
  if (servers.length === 0) {
    return (
      <p class="muted">
        The configuration has no servers. <a href={hrefOf(['servers'])}>Add one in the view of servers</a>
      </p>
    );
  }
  return (
    <ul class="session-list">
      {servers.map(({ name, available, rule, reason, problem }) => {
        const restricted = tools.find(({ server }) => server === name);
        return (
          <li key={name}>
            <span class="session-line">
              <a href={hrefOf(['servers', name])}>{name}</a>
              <Badge tone={available ? 'good' : 'plain'}>{available ? 'available' : 'hidden'}</Badge>
              {rule !== undefined && <code>{rule}</code>}
            </span>
            {reason !== undefined && (
              <span class="session-small">
                <Text value={reason} />
              </span>
            )}
            {problem !== undefined && (
              <span class="session-small">
                <Text value={problem} />
              </span>
            )}
            {restricted !== undefined && <span class="session-small">{describeRestriction(restricted)}</span>}
          </li>
        );
      })}
    </ul>
  );
}

function describeRestriction({ allow, deny, rules }: Context['tools'][number]): string {
  const parts = [
    ...(allow.length === 1 && allow[0] === '*' ? [] : [`allows ${allow.join(', ') || 'no tools'}`]),
    ...(deny.length === 0 ? [] : [`denies ${deny.join(', ')}`]),
    ...(rules.length === 0 ? [] : [`rules: ${rules.join(', ')}`]),
  ];
  return parts.length === 0 ? 'Some tools need a permission.' : `Tools: ${parts.join('; ')}.`;
}

function Permissions({ permissions }: Pick<Context, 'permissions'>) {
  if (permissions.length === 0) {
    return <p class="muted">The session has no permissions, and no tool needs one.</p>;
  }
  return (
    <ul class="session-list">
      {permissions.map(({ permission, held, usedBy, change }) => (
        <li key={permission}>
          <span class="session-line">
            <code>{permission}</code>
            <Badge tone={held ? 'good' : 'plain'}>{held ? 'held' : 'not held'}</Badge>
          </span>
          {usedBy.length > 0 && (
            <span class="session-small">
              needed by <Text value={usedBy.join(', ')} />
            </span>
          )}
          <span class="session-small">
            <Text value={change} />
          </span>
        </li>
      ))}
    </ul>
  );
}
