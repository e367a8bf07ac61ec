import type { AnswerOf } from '../api/request.ts';
import { useRequest } from '../api/use-request.ts';
import { hrefOf, readQuery, route } from '../frame/route.ts';
import { Badge, TrustBadge } from '../parts/badge.tsx';
import { Card, View } from '../parts/card.tsx';
import { ChoiceFilter, Filters, TextFilter } from '../parts/filters.tsx';
import { formatCount, plural } from '../parts/format.ts';
import { Answer, Empty, Notice } from '../parts/notice.tsx';
import { SameData } from '../parts/same-data.tsx';
import { type Column, Table, WindowedTable } from '../parts/table.tsx';
import { makeVisible, Text } from '../parts/text.tsx';
import { KeptFolders } from './kept-folders.tsx';
import './workspaces.css';

type WorkspacesAnswer = AnswerOf<'GET /api/v1/workspaces'>;
export type Workspace = WorkspacesAnswer['workspaces'][number];

const renewMs = 10_000;
/** A longer list draws only the rows in view. */
const longList = 200;

/** The workspaces of the configuration, and the folders that ended sessions left behind. */
export function WorkspaceList() {
  const workspaces = useRequest('GET /api/v1/workspaces', {}, { everyMs: renewMs });
  const count = workspaces.answer.value?.workspaces.length;
  return (
    <View title="Workspaces" aside={count === undefined ? undefined : plural(count, 'workspace')}>
      <Filters>
        <TextFilter name="words" label="Search" placeholder="Name or path" />
        <ChoiceFilter
          name="show"
          label="Show"
          options={[
            ['', 'All'],
            ['sessions', 'With live sessions'],
            ['folders', 'With kept folders'],
            ['missing', 'Whose folder is missing'],
          ]}
        />
      </Filters>
      <Answer of={workspaces}>
        {(answer) => (
          <>
            <Workspaces workspaces={answer.workspaces} />
            <KeptFolders workspaces={answer.workspaces} onChange={() => void workspaces.reload()} />
            <LeftOut answer={answer} />
          </>
        )}
      </Answer>
      <SameData command="ambit workspace list --json" path="/api/v1/workspaces" />
    </View>
  );
}

function Workspaces({ workspaces }: { readonly workspaces: readonly Workspace[] }) {
  const shown = workspaces.filter((each) => matchesFilters(each, readQuery('words'), readQuery('show')));
  const [, named] = route.value.path;
  if (workspaces.length === 0) {
    return (
      <Empty title="There are no workspaces">
        <p>
          Name the folders that sessions may work in under <code>workspaces</code> in the configuration file.
        </p>
      </Empty>
    );
  }
  if (shown.length === 0) {
    return (
      <Empty title="No workspace matches these filters">
        <p>
          <a href={hrefOf(['workspaces'])}>Show all workspaces</a>
        </p>
      </Empty>
    );
  }
  const list = {
    caption: 'Workspaces',
    rows: shown,
    columns,
    keyOf: ({ name }: Workspace) => name,
    isMarked: ({ name }: Workspace) => name === named,
  };
  if (shown.length > longList) return <WindowedTable {...list} />;
  return (
    <Card isFlush>
      <Table {...list} isStacked />
    </Card>
  );
}

function matchesFilters(workspace: Workspace, words: string, show: string): boolean {
  const { name, path, pattern, sessions, folders, exists } = workspace;
  const text = [name, path, pattern].join('\n').toLowerCase();
  const isFound = words
    .toLowerCase()
    .split(/\s+/)
    .every((word) => text.includes(word));
  if (!isFound) return false;
  if (show === 'sessions') return sessions !== 0;
  if (show === 'folders') return folders.some(({ kept }) => kept);
  return show !== 'missing' || exists === false;
}

const columns: readonly Column<Workspace>[] = [
  {
    label: 'Workspace',
    isTitle: true,
    width: '18rem',
    cell: ({ name, path, pattern }) => (
      <span class="workspaces-name">
        <strong>
          <Text value={name} />
        </strong>
        <span class="muted">
          {path === null ? 'no folder' : <Text value={path} />}
          {pattern !== null && <>, from pattern {makeVisible(pattern)}</>}
        </span>
      </span>
    ),
  },
  { label: 'Highest trust', width: '7rem', cell: ({ trust }) => <TrustBadge level={trust} /> },
  { label: 'Servers', width: '12rem', cell: ({ servers }) => <Servers servers={servers} /> },
  { label: 'Isolation', width: '7rem', cell: ({ isolation }) => isolationTexts[isolation] },
  { label: 'Git', width: '6rem', cell: ({ git }) => (git === 'write' ? 'may write' : 'read only') },
  { label: 'Backend', width: '6rem', cell: ({ backend }) => backend },
  { label: 'Folder', width: '6rem', cell: ({ exists }) => <Exists exists={exists} /> },
  { label: 'Sessions', width: '7rem', isNumber: true, cell: (workspace) => <SessionCount {...workspace} /> },
];

const isolationTexts = { shared: 'shared folder', worktree: 'own worktree', copy: 'own copy' } as const;

function Exists({ exists }: { readonly exists: boolean | null }) {
  if (exists === null) return <span class="muted">none</span>;
  return <Badge tone={exists ? 'good' : 'bad'}>{exists ? 'exists' : 'missing'}</Badge>;
}

function Servers({ servers }: Pick<Workspace, 'servers'>) {
  if (typeof servers === 'string') return <span class={servers === 'none' ? '' : 'muted'}>{servers}</span>;
  return (
    <span class="workspaces-servers">
      {servers.map((name) => (
        <a key={name} href={hrefOf(['servers', name])}>
          <Text value={name} />
        </a>
      ))}
    </span>
  );
}

function SessionCount({ name, sessions }: Workspace) {
  if (sessions === null) return <span class="muted">unknown</span>;
  if (sessions === 0) return <span class="muted">0</span>;
  return (
    <a
      href={hrefOf(['sessions'], { workspace: name })}
      aria-label={`${plural(sessions, 'live session')} in workspace ${makeVisible(name)}`}
    >
      {formatCount(sessions)}
    </a>
  );
}

/** Folders of patterns that are no workspaces, with the reason: somebody may look for one of them. */
function LeftOut({ answer: { leftOut, incomplete } }: { readonly answer: WorkspacesAnswer }) {
  return (
    <>
      {incomplete.map(({ pattern, reason }) => (
        <Notice key={pattern} tone="warn">
          <p>
            The folder of pattern {makeVisible(pattern)} was not read completely: <Text value={reason} />
          </p>
        </Notice>
      ))}
      {leftOut.length > 0 && (
        <Card title="Folders that are no workspaces" aside={plural(leftOut.length, 'folder')} isFlush>
          <Table
            caption="Folders that are no workspaces"
            isStacked
            rows={leftOut.slice(0, longList)}
            keyOf={({ pattern, folder }) => `${pattern}\n${folder}`}
            columns={[
              { label: 'Folder', isTitle: true, cell: ({ folder }) => <Text value={folder} /> },
              { label: 'Pattern', cell: ({ pattern }) => <Text value={pattern} /> },
              { label: 'Reason', cell: ({ reason }) => <Text value={reason} /> },
            ]}
          />
        </Card>
      )}
    </>
  );
}
