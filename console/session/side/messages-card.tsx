import { useRequest } from '../../api/use-request.ts';
import { hrefOf } from '../../frame/route.ts';
import { Badge } from '../../parts/badge.tsx';
import { Card } from '../../parts/card.tsx';
import { Answer } from '../../parts/notice.tsx';
import { Ago, Swatch, Text } from '../../parts/text.tsx';
import type { SessionPartProps } from '../session-view.tsx';

/** The messages that a session has not acknowledged yet. */
export function MessagesCard({ id, after }: SessionPartProps) {
  const inbox = useRequest('GET /api/v1/sessions/{id}/messages', { id }, { after });
  return (
    <Card title="Inbox">
      <Answer of={inbox}>
        {({ messages, next }) =>
          messages.length === 0 ? (
            <p class="muted">
              No message waits. Other sessions send one with the tool <code>session_send_message</code>.
            </p>
          ) : (
            <>
              <ul class="session-list">
                {messages.map(({ id: messageId, at, from, text }) => (
                  <li key={messageId}>
                    <span class="session-line">
                      {from.sessionId === null ? (
                        <Badge tone="info">operator</Badge>
                      ) : (
                        <a class="session-line" href={hrefOf(['sessions', from.sessionId])}>
                          <Swatch of={from.sessionId} />
                          <Text value={from.name ?? from.sessionId.slice(0, 8)} max={60} />
                        </a>
                      )}
                      <span class="session-small">
                        <Ago at={at} />
                      </span>
                    </span>
                    <Text value={text} />
                  </li>
                ))}
              </ul>
              {next !== null && <p class="muted">Further messages wait.</p>}
            </>
          )
        }
      </Answer>
    </Card>
  );
}
