import { expect, test } from 'vitest';
import { journeyFrom, type Stage } from '../../src/gateway/chain.ts';

interface Arrived {
  readonly path: string[];
}
type Identified = Arrived & { readonly principal: string };
type InSession = Identified & { readonly session: string };

const record: Stage<Arrived, Arrived, string> = async (exchange, next) => {
  exchange.path.push('record in');
  try {
    return await next(exchange);
  } finally {
    exchange.path.push('record out');
  }
};
const authenticate: Stage<Arrived, Identified, string> = async (exchange, next) => {
  exchange.path.push('authenticate');
  return next({ ...exchange, principal: 'ada' });
};
const resolve: Stage<Identified, InSession, string> = async (exchange, next) => {
  exchange.path.push('resolve');
  return next({ ...exchange, session: `session of ${exchange.principal}` });
};
const forward = async (exchange: InSession) => exchange.session;

test('each stage passes on a wider exchange, and sees the answer on the way back', async () => {
  const serve = journeyFrom<Arrived, string>().through(record).through(authenticate).through(resolve).to(forward);
  const path: string[] = [];
  expect(await serve({ path })).toBe('session of ada');
  expect(path).toEqual(['record in', 'authenticate', 'resolve', 'record out']);
});

test('a stage may answer without passing on, and the stages before it notice', async () => {
  const refuse: Stage<Identified, InSession, string> = async () => 'refused';
  const serve = journeyFrom<Arrived, string>().through(record).through(authenticate).through(refuse).to(forward);
  const path: string[] = [];
  expect(await serve({ path })).toBe('refused');
  expect(path).toEqual(['record in', 'authenticate', 'record out']);
});

test('a watch hears of each stage on the way in and on the way back, whatever becomes of the exchange', async () => {
  const heard: string[] = [];
  const watch = (stage: string, step: string) => heard.push(`${stage} ${step}`);
  const fail = async (): Promise<string> => {
    throw new Error('gone');
  };
  const start = journeyFrom<Arrived, string>(watch).through(record).through(authenticate);
  expect(await start.through(resolve).to(forward)({ path: [] })).toBe('session of ada');
  const inward = ['record in', 'record on', 'authenticate in', 'authenticate on', 'resolve in', 'resolve on'];
  const back = ['resolve back', 'resolve out', 'authenticate back', 'authenticate out', 'record back', 'record out'];
  expect(heard.splice(0)).toEqual([...inward, 'forward in', 'forward out', ...back]);
  await expect(start.to(fail)({ path: [] })).rejects.toThrow('gone');
  expect(heard.slice(-4)).toEqual(['authenticate back', 'authenticate out', 'record back', 'record out']);
});

// `npm run check` compiles this file: a line that compiles although it is marked as an error fails the check.
test('a wrong order does not compile', () => {
  const start = journeyFrom<Arrived, string>().through(record);
  // @ts-expect-error a session cannot be resolved before anyone is identified
  start.through(resolve);
  // @ts-expect-error nothing is forwarded without a session
  start.through(authenticate).to(forward);
  // @ts-expect-error stages do not swap places
  start.through(resolve).through(authenticate);
  expect(start).toBeDefined();
});
