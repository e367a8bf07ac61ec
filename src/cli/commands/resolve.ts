import { describeRules } from '../../config/load/describe-config.ts';
import type { AnswerOf } from '../../entrances/control/routes.ts';
import { type Command, type Invocation, jsonFlag, readFlag, requireFlag, UsageError } from '../command.ts';
import { controlRequest, isUnreachable, runningGatewayRequest } from '../io/control-request.ts';
import { loadTargetConfiguration } from '../io/find-gateway.ts';
import { defaultColumns, paintState, paintText, printData, renderTable, shortenEnd, wrapText } from '../io/output.ts';

const maxWidths = { claim: 26, value: 24, rule: 26 };

const maxNameWidth = 27;
const maxVariableWidth = 34;

export const resolveCommand: Command = {
  help: 'Print the servers of a session for an agent SDK',
  flags: {
    session: { type: 'string', value: 'ID', help: 'Session ID or name' },
    via: {
      type: 'string',
      value: 'gateway',
      help: 'Print gateway URLs with a new session token',
      choices: ['gateway'],
    },
    explain: { type: 'boolean', help: 'Explain which servers are included, and why' },
    json: jsonFlag,
  },
  async run(invocation) {
    const id = requireFlag(invocation, 'session', 'ID');
    const via = readFlag(invocation, 'via');
    const explain = invocation.flags['explain'] === true;
    const json = invocation.flags['json'] === true;
    if (via !== undefined && via !== 'gateway') throw new UsageError('--via takes "gateway"');
    // A token is issued only where the output shows it.
    const needsToken = via !== undefined && (!explain || json);
    const answer = needsToken
      ? await controlRequest(invocation, 'POST /api/v1/sessions/{id}/servers', { id, body: { via } })
      : await controlRequest(invocation, 'GET /api/v1/sessions/{id}/servers', { id });
    process.stdout.write(`${renderServers(answer, explain, json)}\n`);
  },
};

type Servers = AnswerOf<'GET /api/v1/sessions/{id}/servers'>;

function renderServers({ mcpServers, servers }: Servers, explain: boolean, json: boolean): string {
  if (explain && !json) return renderResolution(servers);
  return JSON.stringify(explain ? { mcpServers, servers } : { mcpServers }, undefined, json ? 0 : 2);
}

const problemText = (problem: string | undefined): string => (problem === undefined ? '' : `cannot start: ${problem}`);

/** Renders the servers a session may use and why not the others, then the source of each variable. No values. */
function renderResolution(servers: Servers['servers']): string {
  if (servers.length === 0) return 'No servers.';
  const width = Math.max('SERVER'.length, ...servers.map(({ name }) => shortenEnd(name, maxNameWidth).length));
  const reasonWidth = defaultColumns - width - '  INCLUDED  '.length;
  const states = servers.flatMap((server) => {
    const name = shortenEnd(server.name, maxNameWidth);
    const state = server.available ? 'yes' : 'no';
    const why = server.available ? problemText(server.problem) : `${server.reason} (${server.rule})`;
    const [first = '', ...more] = wrapText(why, reasonWidth);
    return [[name, state, first], ...more.map((line) => ['', '', line])];
  });
  const variables = servers.flatMap((server) =>
    server.available
      ? Object.entries(server.env).map(([name, from]) => [
          shortenEnd(server.name, maxNameWidth),
          shortenEnd(name, maxVariableWidth),
          from,
        ])
      : [],
  );
  const variableTable = variables.length === 0 ? '' : `\n\n${renderTable(['SERVER', 'VARIABLE', 'FROM'], variables)}`;
  return `${renderTable(['SERVER', 'INCLUDED', 'WHY'], states, { states: ['INCLUDED'] })}${variableTable}`;
}

/** Renders the answer, then the claims it was decided from, then each rule that names the tool. */
function renderExplanation(explained: AnswerOf<'POST /api/v1/sessions/{id}/explain'>): string {
  const { server, tool, allowed, rule, reason, claims, rules } = explained;
  const answer = [
    ['tool', `${server}__${tool}`],
    ['allowed', allowed ? 'yes' : 'no'],
    ['rule', rule],
    ['because', reason],
  ].flatMap(([name = '', words = '']) =>
    wrapText(words, defaultColumns - 9).map(
      (line, i) =>
        `${paintText('bold', (i === 0 ? name : '').padEnd(9))}${name === 'allowed' ? paintState(line) : line}`,
    ),
  );
  const claimRows = claims.map(({ claim, value, source }) => {
    const words = typeof value === 'string' ? value : value.join(', ');
    return [shortenEnd(claim, maxWidths.claim), shortenEnd(words === '' ? '(none)' : words, maxWidths.value), source];
  });
  const ruleRows = rules.flatMap(({ id, effect, outcome, error }) => {
    const lines = wrapText(error === undefined ? outcome : `error: ${error}`, defaultColumns - maxWidths.rule - 10);
    return lines.map((line, i) => (i === 0 ? [shortenEnd(id, maxWidths.rule), effect, line] : ['', '', line]));
  });
  return [
    answer.join('\n'),
    ...(claimRows.length === 0 ? [] : [renderTable(['CLAIM', 'VALUE', 'FROM'], claimRows)]),
    ...(ruleRows.length === 0 ? [] : [renderTable(['RULE', 'EFFECT', 'OUTCOME'], ruleRows)]),
  ].join('\n\n');
}

export const explainCommand: Command = {
  help: 'Explain whether a session may call a tool, and why',
  flags: {
    session: { type: 'string', value: 'ID', help: 'Session ID or name' },
    tool: { type: 'string', value: 'TOOL', help: 'Tool, named server__tool' },
    args: { type: 'string', value: 'JSON', help: 'Arguments of the call; default: {}' },
    json: jsonFlag,
  },
  async run(invocation) {
    const explained = await controlRequest(invocation, 'POST /api/v1/sessions/{id}/explain', {
      id: requireFlag(invocation, 'session', 'ID'),
      body: { tool: requireFlag(invocation, 'tool', 'TOOL'), args: readFlag(invocation, 'args') },
    });
    printData(invocation, explained, () => renderExplanation(explained));
  },
};

type Rules = AnswerOf<'GET /api/v1/rules'>;

export const ruleList: Command = {
  help: 'List the rules and restrictions for tools',
  flags: { json: jsonFlag },
  async run(invocation) {
    const found = await readRules(invocation);
    printData(invocation, found, () => renderRules(found));
  },
};

/** Asks the running gateway for its rules; without one, reads the configuration. */
async function readRules(invocation: Invocation): Promise<Rules> {
  try {
    return await runningGatewayRequest(invocation, 'GET /api/v1/rules');
  } catch (error) {
    if (!isUnreachable(error)) throw error;
  }
  return describeRules((await loadTargetConfiguration(invocation)).config);
}

function renderRules({ rules, servers }: Rules): string {
  const restrictions = servers.flatMap(listRestrictions);
  const tables = [
    ...(rules.length === 0
      ? []
      : [
          renderTable(
            ['RULE', 'EFFECT', 'TOOLS', 'WHEN'],
            rules.map(({ id, effect, tools, when }) => [id, effect, tools.join(' '), when ?? '-']),
            { keepWidth: ['RULE', 'EFFECT'] },
          ),
        ]),
    ...(restrictions.length === 0
      ? []
      : [renderTable(['SERVER', 'SETTING', 'TOOLS'], restrictions, { keepWidth: ['SERVER', 'SETTING'] })]),
  ];
  if (tables.length === 0) return 'No rules. Every session may call every tool of its servers.';
  return tables.join('\n\n');
}

/** The restrictions of a server that are set, a row each. */
function listRestrictions({
  server,
  allow,
  deny,
  permissions,
  confirm,
  instead,
}: Rules['servers'][number]): string[][] {
  const rows: [setting: string, patterns: readonly string[]][] = [
    ['allow', allow.length === 1 && allow[0] === '*' ? [] : allow.length === 0 ? ['(none)'] : allow],
    ['deny', deny],
    ['permissions', Object.entries(permissions).map(([pattern, permission]) => `${pattern}: ${permission}`)],
    ['confirm', confirm],
    ['instead', Object.entries(instead).map(([pattern, tool]) => `${pattern}: ${tool}`)],
  ];
  return rows.flatMap(([setting, patterns]) => (patterns.length === 0 ? [] : [[server, setting, patterns.join(', ')]]));
}
