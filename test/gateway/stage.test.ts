import { expect, test } from 'vitest';
import { composeStages } from '../../src/gateway/compose.ts';
import { type AfterStage, type AroundStage, type BeforeStage, startPipeline } from '../../src/gateway/stage.ts';

interface Request {
  readonly path: string[];
}
type Named = Request & { readonly user: string };

const record: AroundStage<Request, unknown, string> = {
  name: 'record',
  refuses: [],
  async around(exchange, next) {
    exchange.path.push('record in');
    try {
      return await next(exchange);
    } finally {
      exchange.path.push('record out');
    }
  },
};
const authenticate: BeforeStage<Request, { readonly user: string }> = {
  name: 'authenticate',
  refuses: [],
  before({ path }) {
    path.push('authenticate');
    return { user: 'ada' };
  },
};
const resolve: BeforeStage<Named, { readonly session: string }> = {
  name: 'resolve',
  refuses: [],
  async before({ path, user }) {
    path.push('resolve');
    return { session: `session of ${user}` };
  },
};
const greet: AfterStage<Request, string> = {
  name: 'greet',
  refuses: [],
  after({ path }, reply) {
    path.push('greet');
    return `hello, ${reply}`;
  },
};
const forward = async ({ session }: { readonly session: string }) => session;

test('stages add to the exchange on the way in and see the reply on the way back', async () => {
  const list = startPipeline<Request, string>().use(record).use(greet).use(authenticate).use(resolve).end(forward);
  const path: string[] = [];
  expect(await composeStages(list)({ path })).toBe('hello, session of ada');
  expect(path).toEqual(['record in', 'authenticate', 'resolve', 'greet', 'record out']);
});

test('a stage that throws or answers ends the way in, and only the stages around it see that', async () => {
  const answer: AroundStage<Named, { readonly session: string }, string> = {
    name: 'answer',
    refuses: [],
    around: async () => 'answered',
  };
  const refuse: BeforeStage<Request, void> = {
    name: 'refuse',
    refuses: ['PERMISSION_DENIED'],
    before() {
      throw new Error('refused');
    },
  };
  const start = startPipeline<Request, string>().use(record).use(authenticate);
  const path: string[] = [];
  expect(await composeStages(start.use(answer).end(forward))({ path })).toBe('answered');
  expect(path.splice(0)).toEqual(['record in', 'authenticate', 'record out']);
  const refusing = composeStages(start.use(greet).use(refuse).use(resolve).end(forward));
  await expect(refusing({ path })).rejects.toThrow('refused');
  expect(path).toEqual(['record in', 'authenticate', 'record out']);
});

// `npm run check` compiles this file: a line that compiles although it is marked as an error fails the check.
test('a wrong order does not compile', () => {
  const start = startPipeline<Request, string>().use(record);
  // @ts-expect-error a session cannot be resolved before anyone is identified
  start.use(resolve);
  // @ts-expect-error nothing is forwarded without a session
  start.use(authenticate).end(forward);
  // @ts-expect-error stages do not swap places
  start.use(resolve).use(authenticate);
  expect(start).toBeDefined();
});
