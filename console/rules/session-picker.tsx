import { useSignal } from '@preact/signals';
import { useMemo } from 'preact/hooks';
import type { AnswerOf } from '../api/request.ts';
import { useRequest } from '../api/use-request.ts';
import { readQuery, setQuery } from '../frame/route.ts';
import { TrustBadge } from '../parts/badge.tsx';
import { plural } from '../parts/format.ts';
import { Answer } from '../parts/notice.tsx';
import { makeVisible, Swatch } from '../parts/text.tsx';

type Session = AnswerOf<'GET /api/v1/sessions'>['sessions'][number];

const maxShown = 50;

/** The live sessions, to choose one of them. The list is searched by name, id, user and workspace. */
export function SessionPicker() {
  const sessions = useRequest('GET /api/v1/sessions');
  return (
    <fieldset class="rules-sessions">
      <legend>Session</legend>
      <Answer of={sessions}>
        {(answer) => <SessionChoice sessions={answer.sessions} hasMore={answer.next !== null} />}
      </Answer>
    </fieldset>
  );
}

function SessionChoice({ sessions, hasMore }: { readonly sessions: readonly Session[]; readonly hasMore: boolean }) {
  const words = useSignal('');
  const chosen = readQuery('session');
  const found = useMemo(() => findSessions(sessions, words.value), [sessions, words.value]);
  const current = sessions.find(({ id, name }) => id === chosen || name === chosen);
  const shown = found.slice(0, maxShown);
  const typed = words.value.trim();
  // A chosen session that the search leaves out stays visible.
  const listed = current === undefined || shown.includes(current) ? shown : [current, ...shown];
  return (
    <>
      <input
        type="search"
        aria-label="Search live sessions"
        placeholder="Search by name, id, user or workspace"
        autocomplete="off"
        spellcheck={false}
        value={words.value}
        onInput={({ currentTarget }) => {
          words.value = currentTarget.value;
        }}
      />
      {chosen !== '' && current === undefined && (
        <p class="rules-problem">
          {makeVisible(chosen.slice(0, 64))} is {hasMore ? 'not in the list, but it may be live' : 'no live session'}.
        </p>
      )}
      <div class="rules-session-list">
        {listed.map((session) => (
          <SessionOption key={session.id} session={session} isChosen={session === current} />
        ))}
        {listed.length === 0 && sessions.length > 0 && <p class="muted">No live session matches. Search for less.</p>}
        {listed.length === 0 && sessions.length === 0 && (
          <p class="muted">
            There is no live session. Open one with <code>ambit session create</code>
          </p>
        )}
      </div>
      <p class="field-hint" role="status">
        {plural(found.length, 'session')}
        {found.length > maxShown && `. The first ${maxShown} are shown: search for others.`}
        {hasMore && ' The gateway has more sessions than this list.'}
        {hasMore && typed !== '' && (
          <button type="button" class="text-more" onClick={() => setQuery({ session: typed })}>
            Use {makeVisible(typed.slice(0, 64))} as the id
          </button>
        )}
      </p>
    </>
  );
}

function SessionOption({ session, isChosen }: { readonly session: Session; readonly isChosen: boolean }) {
  const { id, name, userId, workspaceId, trustLevel } = session;
  return (
    <label class="rules-session">
      <input type="radio" name="session" checked={isChosen} onChange={() => setQuery({ session: id })} />
      <Swatch of={id} />
      <span class="rules-session-name">
        <bdi>{makeVisible(name ?? id.slice(0, 8))}</bdi>
        <bdi class="muted">{makeVisible([id.slice(0, 8), userId, workspaceId ?? 'no workspace'].join(' · '))}</bdi>
      </span>
      <TrustBadge level={trustLevel} />
    </label>
  );
}

function findSessions(sessions: readonly Session[], words: string): readonly Session[] {
  const wanted = words.toLowerCase().split(/\s+/).filter(Boolean);
  if (wanted.length === 0) return sessions;
  return sessions.filter(({ id, name, userId, agentId, workspaceId }) => {
    const text = [id, name, userId, agentId, workspaceId].join('\n').toLowerCase();
    return wanted.every((word) => text.includes(word));
  });
}
