import type { ErrorCode } from '../errors.ts';
import type { Principal } from '../identity/principal.ts';
import type { Era } from '../protocol/channel.ts';
import type { Message } from '../protocol/message.ts';
import type { Session } from '../sessions/session.ts';
import type { ServerDefinition, Upstream } from '../upstreams/definition.ts';

/** Passes an exchange on to the stages that follow. A refusal is a rejected promise, or it is thrown at once. */
export type Next<E, Out> = (exchange: E) => Promise<Out>;

/** The code of a refusal, or the number of a JSON-RPC error. */
export type StageRefusal = ErrorCode | number;

/** The facts that decide which stages a request needs. Requests with equal facts pass the same stages. */
export interface StageScope {
  readonly era: Era;
  /** Whether the request is a `tools/call`. */
  readonly isToolCall: boolean;
  readonly principal: Principal['kind'];
  /** The server that the request is for. Undefined before `routeTool`, and for requests to all servers. */
  readonly upstream: Upstream | undefined;
}

/** A request that has waited, with its session and its server as they are now. */
interface WaitingRequest {
  readonly session: Session;
  readonly server: ServerDefinition;
  readonly message: Message;
}

export interface StageInfo {
  readonly name: string;
  /** The refusals that the stage itself makes. */
  readonly refuses: readonly StageRefusal[];
  /**
   * Tells whether requests of this scope need the stage. A stage without it is needed by all. Only the request pipeline
   * asks, and only for stages after `resolveSession`. The answer is kept until the configuration or an approval changes,
   * so it may depend only on these and on the scope.
   */
  readonly isNeeded?: (scope: StageScope) => boolean;
  /**
   * Checks a request again, right before it is sent to its server. It is called if the session, the configuration or an
   * approval has changed since the request passed the stages. Throws to refuse.
   */
  readonly recheck?: (request: WaitingRequest) => void;
  /** The stage finds the session or the server. The stages up to the next such stage are chosen after it. */
  readonly finds?: 'session' | 'server';
}

/** Runs on the way in. It throws to refuse, or returns what it adds to the exchange. */
export interface BeforeStage<E, More> extends StageInfo {
  readonly before: (exchange: E) => More | Promise<More>;
}

/**
 * Runs on the way back. It sees the reply of the stages that follow and may change it. It does not run when one of them
 * throws: `record` makes a reply of that further out.
 */
export interface AfterStage<E, Out> extends StageInfo {
  readonly after: (exchange: E, reply: Out) => Out | Promise<Out>;
}

/** Runs on the way in and back. It decides itself whether, and how often, the stages that follow run. */
export interface AroundStage<E, More, Out> extends StageInfo {
  readonly around: <Here extends E>(exchange: Here, next: Next<Here & More, Out>) => Promise<Out>;
}

/** One step of a pipeline. `E` is the exchange that it needs, `More` is what it adds for the stages that follow. */
type Stage<E, More, Out> = BeforeStage<E, More> | AfterStage<E, Out> | AroundStage<E, More, Out>;

/** A stage in a list, where the types that it needs and adds have been checked. */
// biome-ignore lint/suspicious/noExplicitAny: the builder below has checked the order of the stages.
export type ListedStage<Out> = Stage<any, any, Out>;

/** A finished pipeline: its stages from first to last, and the function that answers after them. */
export interface StageList<Start, Out> {
  readonly stages: readonly ListedStage<Out>[];
  // biome-ignore lint/suspicious/noExplicitAny: as above.
  readonly destination: Next<any, Out>;
  /** The refusals that the destination makes. */
  readonly refuses: readonly StageRefusal[];
  /** Never set. It carries the type of the exchange that the first stage takes. */
  readonly start?: Start;
}

/**
 * Builds a pipeline. Each stage is checked against what the stages before it add, so a stage that is put before what it
 * needs does not compile.
 */
interface PipelineBuilder<Start, Here, Out> {
  use<More>(stage: Stage<Here, More, Out>): PipelineBuilder<Start, Here & More, Out>;
  end(destination: Next<Here, Out>, refuses?: readonly StageRefusal[]): StageList<Start, Out>;
}

export function startPipeline<Start, Out>(): PipelineBuilder<Start, Start, Out> {
  return extendPipeline<Start, Start, Out>([]);
}

function extendPipeline<Start, Here, Out>(stages: readonly ListedStage<Out>[]): PipelineBuilder<Start, Here, Out> {
  return {
    use: (stage) => extendPipeline([...stages, stage]),
    end: (destination, refuses = []) => ({ stages, destination, refuses }),
  };
}

/**
 * Adds to an exchange in place. An exchange belongs to one request and to one stage at a time. Copies of it, stage after
 * stage, would be the most expensive part of a call.
 */
export function addToExchange<Here extends object, const More extends object>(exchange: Here, more: More): Here & More {
  return Object.assign(exchange, more);
}
