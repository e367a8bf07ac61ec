import type { ScenarioOutcome } from './run-conformance.ts';

/** A scenario whose checks are not the same through Ambit as directly. A check is written as `id=STATUS`. */
export interface Difference {
  readonly scenario: string;
  readonly onlyDirect: readonly string[];
  readonly onlyThrough: readonly string[];
}

/** Compares two runs check by check: a scenario that passes with fewer checks is a difference too. */
export function compareRuns(direct: readonly ScenarioOutcome[], through: readonly ScenarioOutcome[]): Difference[] {
  const names = new Set([...direct, ...through].map(({ scenario }) => scenario));
  return [...names].flatMap((scenario) => {
    const [expected, found] = [direct, through].map((run) => run.find((each) => each.scenario === scenario)?.checks);
    const onlyDirect = subtractChecks(expected ?? [], found ?? []);
    const onlyThrough = subtractChecks(found ?? [], expected ?? []);
    return onlyDirect.length + onlyThrough.length === 0 ? [] : [{ scenario, onlyDirect, onlyThrough }];
  });
}

/** Checks may repeat, so each one found removes only one of its kind. */
function subtractChecks(from: readonly string[], removed: readonly string[]): string[] {
  const rest = [...from];
  for (const check of removed) {
    const at = rest.indexOf(check);
    if (at !== -1) rest.splice(at, 1);
  }
  return rest;
}
