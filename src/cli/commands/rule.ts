import { describeRules } from '../../config/load/describe-config.ts';
import type { AnswerOf } from '../../entrances/control/routes.ts';
import { type Command, type Invocation, jsonFlag } from '../command.ts';
import { isUnreachable, runningGatewayRequest } from '../io/control-request.ts';
import { loadTargetConfiguration } from '../io/find-gateway.ts';
import { printData, renderTable } from '../io/output.ts';

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
