import { useRequest } from '../../api/use-request.ts';
import { Badge } from '../../parts/badge.tsx';
import { Card } from '../../parts/card.tsx';
import { formatBytes } from '../../parts/format.ts';
import { Answer } from '../../parts/notice.tsx';
import { Text, Until } from '../../parts/text.tsx';
import type { SessionPartProps } from '../session-view.tsx';

/** The keys of the state that servers keep for a session. Values are not shown. */
export function StateCard({ id, after }: SessionPartProps) {
  const state = useRequest('GET /api/v1/sessions/{id}/state', { id }, { after });
  return (
    <Card title="State keys">
      <Answer of={state}>
        {({ keys, next }) =>
          keys.length === 0 ? (
            <p class="muted">
              No tool has stored state. An agent does that with the tool <code>session_state_set</code>.
            </p>
          ) : (
            <>
              <ul class="session-list">
                {keys.map(({ key, version, bytes, expiresAt, scope }) => (
                  // For a viewer, several keys may look the same.
                  <li key={`${scope} ${key} ${version}`}>
                    <span class="session-line">
                      <code>
                        <Text value={key} max={120} />
                      </code>
                      {scope === 'workspace' && <Badge tone="info">shared in the workspace</Badge>}
                    </span>
                    <span class="session-small">
                      version {version}, {formatBytes(bytes)}
                      {expiresAt !== null && (
                        <>
                          , expires <Until at={expiresAt} />
                        </>
                      )}
                    </span>
                  </li>
                ))}
              </ul>
              {next !== null && <p class="muted">There are further keys.</p>}
            </>
          )
        }
      </Answer>
    </Card>
  );
}
