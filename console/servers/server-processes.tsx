import { useEffect } from 'preact/hooks';
import { type AnswerOf, pathOf } from '../api/request.ts';
import { useRequest } from '../api/use-request.ts';
import { hrefOf } from '../frame/route.ts';
import { Badge } from '../parts/badge.tsx';
import { Card } from '../parts/card.tsx';
import { formatBytes } from '../parts/format.ts';
import { Answer, Empty } from '../parts/notice.tsx';
import { SameData } from '../parts/same-data.tsx';
import { describeLimit } from '../parts/sandbox-limits.ts';
import { Table } from '../parts/table.tsx';
import { Ago } from '../parts/text.tsx';
import { liveSessions, reloadSessions } from '../sessions/live-sessions.ts';
import { SessionName } from '../sessions/session-columns.tsx';

type Process = AnswerOf<'GET /api/v1/processes'>['processes'][number];

const refreshMs = 5000;

/** The running processes of a server, or of all servers, each with its session. */
export function ServerProcesses({ name }: { readonly name?: string }) {
  useEffect(() => {
    if (liveSessions.peek() === undefined) void reloadSessions();
  }, []);
  const query = name === undefined ? {} : { server: name };
  const processes = useRequest('GET /api/v1/processes', { query }, { everyMs: refreshMs });
  return (
    <Card title="Processes" isFlush>
      <Answer of={processes}>
        {({ processes: rows }) =>
          rows.length === 0 ? (
            <Empty title="No process runs.">The next call of a tool starts one.</Empty>
          ) : (
            <Table
              caption="Processes"
              rows={rows}
              keyOf={({ pid, startedAt }) => `${pid} ${startedAt}`}
              columns={[
                { label: 'Process', cell: ({ pid }) => pid ?? 'unknown' },
                ...(name === undefined
                  ? [
                      {
                        label: 'Server',
                        cell: ({ server }: Process) => <a href={hrefOf(['servers', server])}>{server}</a>,
                      },
                    ]
                  : []),
                {
                  label: 'Session',
                  cell: ({ sessionId }) =>
                    sessionId === null ? (
                      <span class="muted">shared by several sessions</span>
                    ) : (
                      <ProcessSession id={sessionId} />
                    ),
                },
                {
                  label: 'Runner',
                  cell: ({ runner }) => <Badge tone={runner === 'plain' ? 'warn' : 'good'}>{runner}</Badge>,
                },
                { label: 'Started', from: 'tablet', cell: ({ startedAt }) => <Ago at={startedAt} /> },
                {
                  label: 'Memory',
                  isNumber: true,
                  cell: ({ memoryBytes }) => (memoryBytes === null ? 'unknown' : formatBytes(memoryBytes)),
                },
                {
                  label: 'Limits',
                  from: 'desktop',
                  cell: ({ limits }) => (limits.length === 0 ? 'none' : limits.map(describeLimit).join(', ')),
                },
                {
                  label: 'Idle',
                  from: 'tablet',
                  cell: ({ idleSince }) => (idleSince === null ? 'busy' : <Ago at={idleSince} />),
                },
              ]}
            />
          )
        }
      </Answer>
      <div class="server-filters">
        <SameData
          what="these processes"
          command={`ambit process list${name === undefined ? '' : ` --server ${name}`} --json`}
          path={pathOf('GET /api/v1/processes', { query })}
        />
      </div>
    </Card>
  );
}

function ProcessSession({ id }: { readonly id: string }) {
  const session = liveSessions.value?.find((live) => live.id === id);
  return <SessionName session={session ?? { id, name: null, task: null }} />;
}
