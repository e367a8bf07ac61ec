import { useRequest } from '../../api/use-request.ts';
import { hrefOf } from '../../frame/route.ts';
import { Badge } from '../../parts/badge.tsx';
import { Card } from '../../parts/card.tsx';
import { formatAge, formatBytes, formatCount } from '../../parts/format.ts';
import { Meter } from '../../parts/meter.tsx';
import { Answer } from '../../parts/notice.tsx';
import { describeLimit } from '../../parts/sandbox-limits.ts';
import { Ago } from '../../parts/text.tsx';
import type { SessionPartProps } from '../session-view.tsx';

const mega = 1_048_576;

/** The processes of servers that run for a session, with their memory and limits. */
export function ProcessesCard({ id, after }: SessionPartProps) {
  const processes = useRequest('GET /api/v1/processes', { query: { session: id } }, { after });
  return (
    <Card title="Processes">
      <Answer of={processes}>
        {({ processes: rows }) =>
          rows.length === 0 ? (
            <p class="muted">No process runs. The next call of a tool starts one.</p>
          ) : (
            <ul class="session-list">
              {rows.map(({ server, pid, runner, startedAt, memoryBytes, processes: count, limits, idleSince }) => {
                const memory = limits.find(({ name }) => name === 'memoryMb');
                const pids = limits.find(({ name }) => name === 'pids');
                return (
                  <li key={`${server} ${pid}`}>
                    <span class="session-line">
                      <a href={hrefOf(['servers', server])}>{server}</a>
                      <Badge tone={runner === 'plain' ? 'warn' : 'good'}>{runner}</Badge>
                      <span class="session-small">
                        pid {pid ?? 'unknown'}, started <Ago at={startedAt} />,{' '}
                        {idleSince === null ? 'busy' : `idle for ${formatAge(idleSince)}`}
                      </span>
                    </span>
                    {memoryBytes !== null && (
                      <Meter
                        isFull
                        label="Memory"
                        value={memoryBytes}
                        max={memory === undefined ? null : memory.value * mega}
                        format={formatBytes}
                      />
                    )}
                    {count !== null && (
                      <Meter isFull label="Processes" value={count} max={pids?.value ?? null} format={formatCount} />
                    )}
                    {limits.length > 0 && <span class="session-small">{limits.map(describeLimit).join(', ')}</span>}
                  </li>
                );
              })}
            </ul>
          )
        }
      </Answer>
    </Card>
  );
}
