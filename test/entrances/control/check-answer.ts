import { expect } from 'vitest';
import type { AnswerSchemas, Route } from '../../../src/entrances/control/route.ts';
import { routes } from '../../../src/entrances/control/routes.ts';

const answers: AnswerSchemas = await import('../../../src/entrances/control/answer-schemas.ts');

const table = Object.entries<Route>(routes).map(([name, route]) => {
  const pattern = new RegExp(`^${name.replaceAll('.', '\\.').replace('{id}', '[^/]+')}$`);
  return { name, route, pattern };
});

/** Fails where an answer of the control API is not as its row says; returns the name of the row. */
export function checkAnswer(method: string, path: string, status: number, body: unknown): string | undefined {
  const found = table.find(({ pattern }) => pattern.test(`${method} ${path.split('?', 1)[0]}`));
  const isRefused = status >= 400;
  const name = isRefused ? (found?.route.refusals?.[status]?.answer ?? 'problem') : found?.route.answer;
  const sent = JSON.parse(JSON.stringify(body)) as unknown;
  // A member that the schema does not have is dropped by reading.
  expect(name && answers[name].parse(sent), `${method} ${path}`).toEqual(sent);
  if (!isRefused) expect(status, `${method} ${path}`).toBe(found?.route.status ?? 200);
  return found?.name;
}
