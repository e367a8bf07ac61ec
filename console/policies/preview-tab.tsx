import { useRequest } from '../api/use-request.ts';
import { hrefOf, readQuery } from '../frame/route.ts';
import { Card } from '../parts/card.tsx';
import { Filters, TextFilter } from '../parts/filters.tsx';
import { plural } from '../parts/format.ts';
import { Answer, Empty, Notice } from '../parts/notice.tsx';
import { quoteWord } from '../parts/quote-word.ts';
import { SameData } from '../parts/same-data.tsx';
import { type Column, Table } from '../parts/table.tsx';
import { makeVisible, Text } from '../parts/text.tsx';
import { useWorkspaceNames } from '../parts/use-workspaces.ts';
import { Block, type Effective, explainOutcome, OutcomeBadge } from './effective.tsx';
import type { PolicyTabProps } from './policies.tsx';
import { describeScope, readScope } from './scope.ts';

/** What a user in a workspace gets: each policy with the reason, the objectives, and the text for the model. */
export function PreviewTab({ policies, objectives }: PolicyTabProps) {
  const user = readQuery('user');
  const workspace = readQuery('workspace');
  const lists = [policies.answer.value?.policies ?? [], objectives.answer.value?.objectives ?? []];
  const scopes = lists.flatMap((entries) => entries.map(({ scope }) => readScope(scope)));
  const namesOf = (wanted: string) => scopes.filter(({ kind }) => kind === wanted).map(({ name }) => name);
  const users = useRequest('GET /api/v1/users').answer.value?.users;
  const knownUsers = [...new Set([...(users ?? []).map(({ name }) => name), ...namesOf('user')])].sort();
  const knownWorkspaces = [...new Set([...useWorkspaceNames(), ...namesOf('workspace')])].sort();
  const query = { user, workspace: workspace === '' ? undefined : workspace };
  const effective = useRequest('GET /api/v1/policies/effective', { query }, { when: user !== '' });
  const flags = `${user === '' ? ' --user NAME' : ` --user ${quoteWord(user)}`}${workspace === '' ? '' : ` --workspace ${quoteWord(workspace)}`}`;
  return (
    <>
      <Filters>
        <TextFilter name="user" label="User" placeholder="Name of a user" known={knownUsers} />
        <TextFilter name="workspace" label="Workspace" placeholder="None" known={knownWorkspaces} />
      </Filters>
      {user === '' ? (
        <Card>
          <Empty title="Choose a user.">
            The preview shows what the model gets in a session of this user, and why. Choose a workspace to see its
            policies too. <a href={hrefOf(['people'])}>Show all users</a>
          </Empty>
        </Card>
      ) : (
        <>
          {users !== undefined && !knownUsers.includes(user) && (
            <Notice tone="warn">
              The list of users has no {makeVisible(user.slice(0, 130))}. The preview shows what a user of this name
              without teams gets.
            </Notice>
          )}
          <Answer of={effective}>{(answer) => <Preview of={answer} />}</Answer>
        </>
      )}
      <SameData
        command={`ambit policy list --effective --json${flags}`}
        path={`/api/v1/policies/effective?${new URLSearchParams({ user: user === '' ? 'NAME' : user, ...(workspace === '' ? {} : { workspace }) })}`}
      />
    </>
  );
}

const policyColumns: readonly Column<Effective['policies'][number]>[] = [
  { label: 'Scope', from: 'tablet', cell: ({ scope }) => <Scope of={scope} /> },
  {
    label: 'Policy',
    isTitle: true,
    cell: ({ name, mode }) => (
      <div class="policies-name">
        <strong>
          <Text value={name} />
        </strong>
        <span class="muted">{mode}</span>
      </div>
    ),
  },
  { label: 'Outcome', cell: (policy) => <OutcomeBadge of={policy} /> },
  { label: 'Why', cell: (policy) => makeVisible(explainOutcome(policy)) },
];

const objectiveColumns: readonly Column<Effective['objectives'][number]>[] = [
  { label: 'Scope', from: 'tablet', cell: ({ scope }) => <Scope of={scope} /> },
  { label: 'Objective', isTitle: true, cell: ({ text }) => <Text value={text} max={200} keep={'\n'} /> },
];

function Scope({ of }: { readonly of: string }) {
  return (
    <div class="policies-scope">
      <Text value={describeScope(of)} max={80} />
    </div>
  );
}

function Preview({ of: { teams, policies, objectives, block } }: { readonly of: Effective }) {
  const given = policies.filter(({ outcome }) => outcome === 'given').length;
  return (
    <div class="policies-preview">
      <div class="policies-preview-lists">
        <p class="muted">
          {teams.length === 0
            ? 'The user is in no team.'
            : `Teams of the user, the first one counts most: ${makeVisible(teams.join(', '))}.`}
        </p>
        <Card title="Policies" aside={`${given} of ${policies.length} given`} isFlush>
          {policies.length === 0 ? (
            <Empty title="No policy applies.">
              A policy applies to everybody, or to one user, team or workspace.{' '}
              <a href={hrefOf(['policies'])}>Show all policies</a>
            </Empty>
          ) : (
            <Table
              caption="Policies with their outcome"
              rows={policies}
              keyOf={({ scope, name }) => `${scope} ${name}`}
              columns={policyColumns}
              isStacked
            />
          )}
        </Card>
        <Card title="Objectives" aside={plural(objectives.length, 'objective')} isFlush>
          {objectives.length === 0 ? (
            <Empty title="No objective applies.">
              <a href={hrefOf(['policies'], { tab: 'objectives' })}>Show all objectives</a>
            </Empty>
          ) : (
            <Table caption="Objectives" rows={objectives} keyOf={({ id }) => id} columns={objectiveColumns} isStacked />
          )}
        </Card>
      </div>
      <Card title="Text for the model">
        <Block text={block} />
      </Card>
    </div>
  );
}
