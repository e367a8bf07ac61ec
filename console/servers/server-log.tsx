import { useRequest } from '../api/use-request.ts';
import { Card } from '../parts/card.tsx';
import { formatInstant } from '../parts/format.ts';
import { Answer } from '../parts/notice.tsx';
import { SameData } from '../parts/same-data.tsx';
import { Lines } from '../parts/text.tsx';

const refreshMs = 5000;
const shownLines = 200;

/** The last lines that the processes of a server wrote to stderr. */
export function ServerLog({ name }: { readonly name: string }) {
  const query = { lines: String(shownLines) };
  const log = useRequest('GET /api/v1/servers/{id}/logs', { id: name, query }, { everyMs: refreshMs });
  return (
    <Card title="Stderr" aside="last lines of its processes">
      <Answer of={log}>
        {({ lines }) =>
          lines.length === 0 ? (
            <p class="muted">Its processes have written nothing to stderr since the gateway started.</p>
          ) : (
            <Lines
              value={lines
                .map(({ at, session, pid, line }) => `${formatInstant(at)} ${session ?? 'shared'} ${pid ?? ''} ${line}`)
                .join('\n')}
            />
          )
        }
      </Answer>
      <SameData
        what="these lines"
        command={`ambit logs ${name}`}
        path={`/api/v1/servers/${encodeURIComponent(name)}/logs`}
      />
    </Card>
  );
}
