import { useSignal } from '@preact/signals';
import type { AnswerOf } from '../api/request.ts';
import { useRequest } from '../api/use-request.ts';
import { hrefOf, readQuery } from '../frame/route.ts';
import { Badge, StateBadge } from '../parts/badge.tsx';
import { Actions, Button } from '../parts/button.tsx';
import { Card, View } from '../parts/card.tsx';
import { ChoiceFilter, Filters, TextFilter } from '../parts/filters.tsx';
import { plural } from '../parts/format.ts';
import { Answer, Empty, NextStep } from '../parts/notice.tsx';
import { showResult } from '../parts/result.tsx';
import { SameData } from '../parts/same-data.tsx';
import { Table } from '../parts/table.tsx';
import { Ago, makeVisible, Text } from '../parts/text.tsx';
import { isAdmin } from '../sign-in/signed-in.ts';
import { AddServerDialog } from './add-server.tsx';
import { ImportServersDialog } from './import-servers.tsx';
import { ServerProcesses } from './server-processes.tsx';
import './servers.css';

type Server = AnswerOf<'GET /api/v1/servers'>['servers'][number];

const refreshMs = 5000;
const troubles = new Set(['failed', 'unreachable', 'unapproved']);

/** All servers of the configuration, with how each does. */
export function ServerList() {
  const servers = useRequest('GET /api/v1/servers', {}, { everyMs: refreshMs });
  const open = useSignal<'add' | 'import' | undefined>(undefined);
  const close = () => {
    open.value = undefined;
  };
  const finish = async (names: readonly string[]) => {
    await servers.reload();
    showResult(<AddedServers names={names} />);
  };
  return (
    <View
      title="Servers"
      aside={servers.answer.value && plural(servers.answer.value.servers.length, 'server')}
      actions={
        isAdmin.value ? (
          <Actions>
            <Button
              onClick={() => {
                open.value = 'import';
              }}
            >
              Import…
            </Button>
            <Button
              kind="primary"
              onClick={() => {
                open.value = 'add';
              }}
            >
              Add a server…
            </Button>
          </Actions>
        ) : undefined
      }
    >
      <Filters>
        <TextFilter name="text" label="Name" />
        <ChoiceFilter
          name="show"
          label="Show"
          options={[
            ['', 'All'],
            ['trouble', 'Failed, unreachable or not approved'],
            ['running', 'With running processes'],
            ['imported', 'Imported or included'],
          ]}
        />
        <ChoiceFilter
          name="transport"
          label="Transport"
          options={[
            ['', 'All'],
            ['stdio', 'stdio'],
            ['http', 'http'],
            ['sse', 'sse'],
          ]}
        />
      </Filters>
      <Answer of={servers}>{({ servers: all }) => <ServerTable all={all} />}</Answer>
      {readQuery('show') === 'running' && <ServerProcesses />}
      <SameData command="ambit server list --json" path="/api/v1/servers" />
      {open.value === 'add' && <AddServerDialog onClose={close} onDone={finish} />}
      {open.value === 'import' && <ImportServersDialog onClose={close} onDone={finish} />}
    </View>
  );
}

function ServerTable({ all }: { readonly all: readonly Server[] }) {
  const [text, show, transport] = ['text', 'show', 'transport'].map(readQuery) as [string, string, string];
  const rows = all.filter(
    (server) =>
      server.name.includes(text.toLowerCase()) &&
      (transport === '' || server.transport === transport) &&
      (show === '' ||
        (show === 'trouble' && (troubles.has(server.state ?? '') || isApprovalMissing(server))) ||
        (show === 'running' && (server.processes ?? 0) > 0) ||
        (show === 'imported' && server.source !== 'operator')),
  );
  if (all.length === 0) {
    return (
      <Empty title="The configuration has no servers.">
        <NextStep button="Add a server…" command="ambit server add NAME -- COMMAND" />
      </Empty>
    );
  }
  if (rows.length === 0) {
    return (
      <Empty title="No server matches these filters.">
        <a href={hrefOf(['servers'])}>Show all servers</a>
      </Empty>
    );
  }
  return (
    <Card isFlush>
      <Table
        caption="Servers"
        rows={rows}
        keyOf={({ name }) => name}
        columns={[
          { label: 'Server', cell: ({ name }) => <a href={hrefOf(['servers', name])}>{name}</a> },
          { label: 'State', cell: (server) => <RunState server={server} /> },
          { label: 'Approval', cell: (server) => <ApprovalBadge server={server} /> },
          { label: 'Transport', from: 'tablet', cell: ({ transport: kind }) => kind },
          { label: 'Era', from: 'desktop', cell: ({ era }) => era ?? <span class="muted">not known yet</span> },
          { label: 'Trust levels', from: 'tablet', cell: ({ trust }) => trust.join(', ') },
          { label: 'Processes', isNumber: true, from: 'tablet', cell: ({ processes }) => processes ?? 0 },
          { label: 'Last error', from: 'tablet', cell: ({ lastError }) => <LastError error={lastError} /> },
        ]}
      />
    </Card>
  );
}

/** What has been added, and what to do next. */
function AddedServers({ names }: { readonly names: readonly string[] }) {
  return (
    <>
      {names.length === 1 ? `The server ${names[0]} was added.` : `${names.length} servers were added.`} Review and
      approve:{' '}
      {names.map((name, at) => (
        <span key={name}>
          {at > 0 && ', '}
          <a href={hrefOf(['servers', name])}>{makeVisible(name)}</a>
        </span>
      ))}
    </>
  );
}

/** How a server does. That it is not approved stands beside it. */
export function RunState({ server }: { readonly server: Pick<Server, 'state' | 'approval'> }) {
  const { state } = server;
  if (state === 'unapproved' && isApprovalMissing(server)) return <span class="muted nowrap">not started</span>;
  return <StateBadge state={state ?? 'unknown'} />;
}

function isApprovalMissing({ approval }: Pick<Server, 'approval'>): boolean {
  return approval === 'unapproved' || approval === 'changed' || approval === 'exposed';
}

export function ApprovalBadge({ server }: { readonly server: Pick<Server, 'approval' | 'source'> }) {
  const { approval, source } = server;
  return (
    <span class="server-approval">
      {approval === 'not needed' ? <Badge>no approval needed</Badge> : <StateBadge state={approval} />}
      {source !== 'operator' && <Badge>{source}</Badge>}
    </span>
  );
}

function LastError({ error }: { readonly error: Server['lastError'] }) {
  if (error === null) return <span class="muted">none</span>;
  return (
    <span class="server-error">
      <Ago at={error.at} />: <Text value={error.message} max={120} />
    </span>
  );
}
