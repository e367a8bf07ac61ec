import { useEffect } from 'preact/hooks';
import { useRequest } from '../../api/use-request.ts';
import { hrefOf } from '../../frame/route.ts';
import { addSessionNames } from '../../journal/entry-fields.ts';
import { TrustBadge } from '../../parts/badge.tsx';
import { Card } from '../../parts/card.tsx';
import { plural } from '../../parts/format.ts';
import { Id, Swatch, Text } from '../../parts/text.tsx';

const maxShown = 50;

/** The live sessions that a session has opened. Its timeline has those that ended too. */
export function ChildrenCard({ id, count }: { readonly id: string; readonly count: number }) {
  const query = { parent: id, include: 'activity', limit: String(maxShown) };
  const children = useRequest('GET /api/v1/sessions', { query }, { after: count, when: count > 0 });
  const rows = count === 0 ? [] : (children.answer.value?.sessions ?? []);
  if (count === 0) return null;
  return (
    <Card title="Child sessions" aside={plural(count, 'live session')}>
      <ul class="session-list">
        {rows.map(({ id: child, name, trustLevel, activity }) => (
          <li key={child}>
            <span class="session-line">
              <Swatch of={child} />
              <a href={hrefOf(['sessions', child])}>{name === null ? <Id value={child} /> : <Text value={name} />}</a>
              <TrustBadge level={trustLevel} />
              <span class="session-small">{plural(activity?.calls ?? 0, 'call')}</span>
            </span>
          </li>
        ))}
      </ul>
      {count > maxShown && <p class="muted">{plural(count - maxShown, 'further child session')} not shown.</p>}
    </Card>
  );
}

/** The session that opened this one. A parent lives at least as long as its children. */
export function Parent({ id, isLive }: { readonly id: string; readonly isLive: boolean }) {
  const live = useRequest('GET /api/v1/sessions/{id}', { id }, { when: isLive }).answer.value;
  const ended = useRequest('GET /api/v1/sessions/ended', { query: { id } }, { when: !isLive }).answer.value;
  const parent = live ?? ended?.sessions.find((each) => each.id === id);
  const name = parent?.name ?? null;
  useEffect(() => {
    if (parent !== undefined) addSessionNames([parent]);
  }, [parent]);
  return (
    <li>
      <span class="muted">Parent</span>{' '}
      <a href={hrefOf(['sessions', id])}>
        <Swatch of={id} /> {name === null ? <Id value={id} /> : <Text value={name} />}
      </a>
    </li>
  );
}
