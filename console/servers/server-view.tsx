import { useSignal } from '@preact/signals';
import { type AnswerOf, request } from '../api/request.ts';
import { useRequest } from '../api/use-request.ts';
import { hrefOf, navigate, route } from '../frame/route.ts';
import { StateBadge } from '../parts/badge.tsx';
import { Actions, Button } from '../parts/button.tsx';
import { Card, Facts, View } from '../parts/card.tsx';
import { ActionDialog } from '../parts/dialog.tsx';
import { Answer, Notice } from '../parts/notice.tsx';
import { SameData } from '../parts/same-data.tsx';
import { Ago, makeVisible, Text } from '../parts/text.tsx';
import { isAdmin } from '../sign-in/signed-in.ts';
import { ApproveDialog } from './approve-server.tsx';
import { CheckDialog } from './check-server.tsx';
import { requireReload } from './require-reload.ts';
import { ServerDefinition } from './server-definition.tsx';
import { ServerErrors } from './server-errors.tsx';
import { ApprovalBadge, RunState } from './server-list.tsx';
import { ServerLog } from './server-log.tsx';
import { ServerProcesses } from './server-processes.tsx';
import { ServerTools } from './server-tools.tsx';
import './servers.css';

export type ServerDetails = AnswerOf<'GET /api/v1/servers/{id}'>;

const refreshMs = 5000;
const maxNameShown = 80;

/** Everything about one server: what runs, what was approved, its tools, processes, logins and errors. */
export function ServerView() {
  const [, name = ''] = route.value.path;
  const server = useRequest('GET /api/v1/servers/{id}', { id: name }, { everyMs: refreshMs });
  const details = server.answer.value;
  const isUnknown = details === undefined && server.error.value !== undefined;
  // The heading is there before the answer: the focus moves to it.
  return (
    <View
      title={makeVisible(name.slice(0, maxNameShown))}
      aside={details && <ServerState details={details} />}
      actions={details && isAdmin.value && <ServerActions details={details} onChange={server.reload} />}
    >
      <Answer of={server}>{(answer) => <OneServer details={answer} />}</Answer>
      {isUnknown && (
        <p>
          <a href={hrefOf(['servers'])}>Show all servers</a> or{' '}
          <a href={hrefOf(['journal'], { server: name })}>the lines of the journal about this name</a>.
        </p>
      )}
    </View>
  );
}

function ServerState({ details }: { readonly details: ServerDetails }) {
  const { approvedAt } = details;
  return (
    <>
      <RunState server={details} />
      <ApprovalBadge server={details} />
      {approvedAt !== null && (
        <span>
          approved <Ago at={approvedAt} />
        </span>
      )}
    </>
  );
}

function OneServer({ details }: { readonly details: ServerDetails }) {
  const { name, approval, changes, lastError, transport } = details;
  const needsApproval = approval === 'unapproved' || approval === 'changed';
  return (
    <>
      {needsApproval && (
        <Notice tone="warn">
          <strong>
            {approval === 'changed' ? 'The server has changed since it was approved.' : 'The server is not approved.'}
          </strong>
          {changes.map((change) => (
            <Text key={change} value={change} />
          ))}
          <span>It does not start until it is approved: review it, or run "ambit server approve {name}".</span>
        </Notice>
      )}
      {approval === 'exposed' && (
        <Notice tone="bad">
          <strong>Another account of this machine could replace the program of this server.</strong>
          {changes.map((change) => (
            <Text key={change} value={change} />
          ))}
        </Notice>
      )}
      {lastError !== null && (
        <Notice tone="bad">
          <span>
            Last error, <Ago at={lastError.at} />: <Text value={lastError.message} max={1000} />
          </span>
        </Notice>
      )}
      <div class="server-columns">
        <Card title="What runs">
          <ServerDefinition details={details} />
        </Card>
        <Card title="Use">
          <Facts rows={factsOf(details)} />
        </Card>
      </div>
      <ServerTools details={details} />
      <ServerProcesses name={name} />
      {transport === 'stdio' && <ServerErrors name={name} after={lastError?.at} />}
      <ServerLog name={name} />
      <SameData command={`ambit server show ${name} --json`} path={`/api/v1/servers/${encodeURIComponent(name)}`} />
    </>
  );
}

function factsOf({ name, transport, era, trust, file, restrictions, logins, toolsListedAt }: ServerDetails) {
  const { allow, deny, permissions } = restrictions;
  const needed = Object.entries(permissions).map(([tool, permission]) => `${tool} needs ${permission}`);
  const restricted = [
    ...(allow.length === 1 && allow[0] === '*' ? [] : [`allowed: ${allow.join(', ') || 'none'}`]),
    ...(deny.length === 0 ? [] : [`denied: ${deny.join(', ')}`]),
    ...needed,
  ];
  return [
    ['Transport', transport],
    ['Protocol era', era ?? 'not known yet'],
    ['Sessions', `${trust.join(' and ')}`],
    ['Declared in', file === null ? 'the configuration' : <Text value={file} />],
    ['Tools', restricted.length === 0 ? 'not restricted' : <Text value={restricted.join('; ')} />],
    ['Tools listed', <Ago at={toolsListedAt} />],
    [
      'Logins',
      logins.length === 0 ? (
        'none'
      ) : (
        <ul>
          {logins.map(({ userId, state }) => (
            <li key={userId}>
              <a href={hrefOf(['people'], { tab: 'logins', user: userId })}>
                <Text value={userId} max={80} />
              </a>{' '}
              <StateBadge state={state} />
            </li>
          ))}
        </ul>
      ),
    ],
    ['Journal', <a href={hrefOf(['journal'], { server: name })}>lines about this server</a>],
  ] as const;
}

function ServerActions({
  details,
  onChange,
}: {
  readonly details: ServerDetails;
  readonly onChange: () => Promise<void>;
}) {
  const { name, approval, source } = details;
  const open = useSignal<'check' | 'approve' | 'remove' | undefined>(undefined);
  const show = (which: typeof open.value) => () => {
    open.value = which;
  };
  const close = show(undefined);
  const canApprove = source !== 'operator';
  return (
    <>
      <Actions>
        <Button onClick={show('check')} disabled={approval !== 'approved' && approval !== 'not needed'}>
          Check…
        </Button>
        {canApprove && (
          <Button kind={approval === 'approved' ? 'plain' : 'primary'} onClick={show('approve')}>
            Review and approve…
          </Button>
        )}
        {source !== 'project' && (
          <Button kind="danger" onClick={show('remove')}>
            Remove…
          </Button>
        )}
      </Actions>
      {open.value === 'check' && <CheckDialog name={name} onClose={close} />}
      {open.value === 'approve' && <ApproveDialog name={name} onClose={close} onDone={onChange} />}
      {open.value === 'remove' && (
        <ActionDialog
          title="Remove the server"
          name={name}
          action={`Remove ${name}`}
          isDanger
          onClose={close}
          onRun={async () => {
            requireReload(await request('DELETE /api/v1/servers/{id}', { id: name }));
            navigate(hrefOf(['servers']));
          }}
        >
          <p>The server is removed from the configuration file, with its approval. Its processes end.</p>
        </ActionDialog>
      )}
    </>
  );
}
