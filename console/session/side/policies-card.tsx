import { useRequest } from '../../api/use-request.ts';
import { hrefOf } from '../../frame/route.ts';
import { Badge } from '../../parts/badge.tsx';
import { Card } from '../../parts/card.tsx';
import { Answer } from '../../parts/notice.tsx';
import { Ago, Lines, Text } from '../../parts/text.tsx';
import type { SessionPartProps } from '../session-view.tsx';

/** The policy block as the model gets it, and when it was delivered. */
export function PoliciesCard({ id, after }: SessionPartProps) {
  const policies = useRequest('GET /api/v1/sessions/{id}/policies', { id }, { after });
  return (
    <Card title="Policies" aside={<a href={hrefOf(['policies'])}>All policies</a>}>
      <Answer of={policies}>
        {({ block, carrier, deliveries }) => (
          <>
            {block === null ? <p class="muted">No policy or objective applies.</p> : <Lines value={block} max={4000} />}
            {block !== null && carrier !== 'first-result' && (
              <p class="muted">Clients get it with the instructions when they connect.</p>
            )}
            {block !== null && carrier !== 'instructions' && deliveries.length === 0 && (
              <p class="muted">Not delivered yet. It comes with the first call of a tool.</p>
            )}
            {deliveries.length > 0 && (
              <ul class="session-list">
                {deliveries.map(({ at, to, kind, isCurrent }) => (
                  <li key={`${at} ${to}`}>
                    <span class="session-line">
                      {kind === 'block' ? 'Delivered' : 'Change delivered'} <Ago at={at} />
                      {!isCurrent && <Badge tone="warn">changed since</Badge>}
                    </span>
                    <span class="session-small">
                      to <Text value={to} />
                    </span>
                  </li>
                ))}
              </ul>
            )}
          </>
        )}
      </Answer>
    </Card>
  );
}
