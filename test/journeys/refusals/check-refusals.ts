import { isAmbitError } from '../../../src/errors.ts';
import type { Exchange, PreparedExchange } from '../../../src/gateway/exchange.ts';
import type { ListedStage, Next, StageList, StageRefusal } from '../../../src/gateway/stage.ts';
import type { FinalReply } from '../../../src/protocol/channel.ts';
import { ProtocolError } from '../../../src/protocol/protocol-error.ts';

export type RequestStages = StageList<Exchange, FinalReply>;

/** The same stages. `tell` hears of each refusal that a stage makes and does not declare. */
export function checkRefusals(list: RequestStages, tell: (refusal: string) => void): RequestStages {
  /** Errors that have a stage already: further out they only pass by. */
  const known = new WeakSet<object>();

  function check(name: string, refuses: readonly StageRefusal[], error: unknown): never {
    const code = isAmbitError(error) ? error.code : error instanceof ProtocolError ? error.rpc : undefined;
    if (code !== undefined && !known.has(error as object)) {
      known.add(error as object);
      if (!refuses.includes(code)) tell(`${name}: ${code}`);
    }
    throw error;
  }

  function checked(stage: ListedStage<FinalReply>): ListedStage<FinalReply> {
    const { name, refuses } = stage;
    if ('after' in stage) return stage;
    const failed = (error: unknown) => check(name, refuses, error);
    if ('around' in stage) {
      const { around } = stage;
      return {
        ...stage,
        async around(exchange, next) {
          try {
            return await around(exchange, next as never);
          } catch (error) {
            return failed(error);
          }
        },
      };
    }
    const { before } = stage;
    return {
      ...stage,
      before(exchange) {
        try {
          const more: unknown = before(exchange);
          return more instanceof Promise ? more.catch(failed) : more;
        } catch (error) {
          return failed(error);
        }
      },
    };
  }

  const destination: Next<PreparedExchange, FinalReply> = (exchange) =>
    list.destination(exchange).catch((error: unknown) => {
      // Ambit's own tools have many refusals of their own.
      const isOwn = exchange.upstream?.kind === 'in-process';
      return isOwn ? known.add(error as object) && Promise.reject(error) : check('forward', list.refuses, error);
    });
  return { ...list, stages: list.stages.map(checked), destination };
}
