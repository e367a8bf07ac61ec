import { type RuleArguments, readRuleArguments } from '../../src/protocol/rule-arguments.ts';
import type { SessionClaims } from '../../src/rules/session-base.ts';
import type { ToolFilterTexts } from '../../src/rules/tool-rules.ts';
import { createToolRules, loadConditions, type RuleText } from '../../src/rules/tool-rules.ts';

export const compile = await loadConditions();

export const someone: SessionClaims = {
  id: '0123456789abcdef',
  userId: 'ada',
  agentId: '',
  workspaceId: 'garden',
  trustLevel: 'sandboxed',
  permissions: ['notes:read'],
};

export function createTestRules(rules: readonly RuleText[], tools: Partial<ToolFilterTexts> = {}) {
  const filters = { allow: ['*'], deny: [], permissions: {}, instead: {}, hideReplaced: false, ...tools };
  return createToolRules((server) => (server === 'notes' ? filters : undefined), rules);
}

export const createArgumentsReader = (text: string) => (names: ReadonlySet<string>) => readRuleArguments(text, names);

export const failOnRead = (): RuleArguments => {
  throw new Error('the arguments were read');
};

/** Evaluates a condition for these arguments: true, false, or the error. */
export function judgeCondition(when: string, args = '{}', session = someone): boolean | string {
  const condition = compile(when);
  if ('problem' in condition) throw new Error(condition.problem);
  const verdict = condition.judge(
    { session, server: 'notes', tool: 'write' },
    readRuleArguments(args, condition.names),
  );
  return 'error' in verdict ? verdict.error : verdict.holds;
}
