import { useMemo } from 'preact/hooks';
import { useRequest } from '../api/use-request.ts';
import { hrefOf, readQuery, setQuery } from '../frame/route.ts';
import { Button } from '../parts/button.tsx';
import { Card } from '../parts/card.tsx';
import { plural } from '../parts/format.ts';
import { Table } from '../parts/table.tsx';
import { Ago, makeVisible, Swatch, Text } from '../parts/text.tsx';
import { SessionFolder } from '../session/folder.tsx';
import { isAdmin } from '../sign-in/signed-in.ts';
import type { Workspace } from './workspace-list.tsx';

interface KeptFolder {
  readonly workspaceId: string;
  readonly sessionId: string;
  readonly kind: string;
}

const maxShown = 200;

/** The folders that ended sessions left behind because their changes are not merged. */
export function KeptFolders({
  workspaces,
  onChange,
}: {
  readonly workspaces: readonly Workspace[];
  readonly onChange: () => void;
}) {
  const all = useMemo(() => collectFolders(workspaces), [workspaces]);
  const ended = useEndedSessions(all.length > 0);
  const chosen = readQuery('folder');
  const [chosenWorkspace = '', chosenSession = ''] = chosen.split('/');
  const shown = all.filter(({ workspaceId }) => workspaces.some(({ name }) => name === workspaceId)).slice(0, maxShown);
  const nameOf = (sessionId: string) => ended.get(sessionId)?.name ?? sessionId.slice(0, 8);
  if (all.length === 0 && chosen === '') return null;
  return (
    <>
      {all.length > 0 && (
        <Card title="Folders of ended sessions" aside={plural(all.length, 'folder')} isFlush>
          <Table
            caption="Folders of ended sessions"
            isStacked
            rows={shown}
            keyOf={keyOfFolder}
            isMarked={(folder) => keyOfFolder(folder) === chosen}
            columns={[
              {
                label: 'Session',
                isTitle: true,
                cell: ({ sessionId }) => (
                  <span class="workspaces-session">
                    <Swatch of={sessionId} />
                    <a href={hrefOf(['sessions', sessionId])}>
                      <Text value={nameOf(sessionId)} />
                    </a>
                  </span>
                ),
              },
              { label: 'Workspace', cell: ({ workspaceId }) => <Text value={workspaceId} /> },
              { label: 'Kind', cell: ({ kind }) => kind },
              {
                label: 'Ended',
                cell: ({ sessionId }) => {
                  const at = ended.get(sessionId)?.endedAt;
                  return at === undefined ? <span class="muted">unknown</span> : <Ago at={at} />;
                },
              },
              ...(isAdmin.value
                ? [
                    {
                      label: 'Changes',
                      cell: (folder: KeptFolder) => (
                        <ShowButton folder={folder} name={nameOf(folder.sessionId)} chosen={chosen} />
                      ),
                    },
                  ]
                : []),
            ]}
          />
          {all.length > maxShown && <p class="workspaces-note muted">The first {maxShown} folders are shown.</p>}
        </Card>
      )}
      {!isAdmin.value && all.length > 0 && (
        <p class="muted">Changes are shown to administrators only, because files may contain secrets.</p>
      )}
      {chosenSession !== '' && isAdmin.value && (
        <SessionFolder
          key={chosen}
          id={chosenSession}
          name={nameOf(chosenSession)}
          isLive={false}
          workspaceId={chosenWorkspace}
          onChange={onChange}
        />
      )}
    </>
  );
}

interface ShowProps {
  readonly folder: KeptFolder;
  readonly name: string;
  readonly chosen: string;
}

function ShowButton({ folder, name, chosen }: ShowProps) {
  const key = keyOfFolder(folder);
  const isChosen = key === chosen;
  return (
    <Button
      isPressed={isChosen}
      label={`${isChosen ? 'Hide' : 'Show'} changes of ${makeVisible(name)}`}
      onClick={() => setQuery({ folder: isChosen ? '' : key })}
    >
      {isChosen ? 'Hide changes' : 'Show changes'}
    </Button>
  );
}

/** Neither part contains a slash. */
function keyOfFolder({ workspaceId, sessionId }: KeptFolder): string {
  return `${workspaceId}/${sessionId}`;
}

function collectFolders(workspaces: readonly Workspace[]): readonly KeptFolder[] {
  return workspaces.flatMap(({ name, folders }) =>
    folders.filter(({ kept }) => kept).map(({ sessionId, kind }) => ({ workspaceId: name, sessionId, kind })),
  );
}

/** Reads what is known about ended sessions. Without it, the folders are listed by the ids of their sessions. */
function useEndedSessions(isNeeded: boolean) {
  const ended = useRequest('GET /api/v1/sessions/ended', {}, { when: isNeeded });
  return useMemo(
    () => new Map((ended.answer.value?.sessions ?? []).map((session) => [session.id, session] as const)),
    [ended.answer.value],
  );
}
