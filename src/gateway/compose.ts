import type { Upstream } from '../upstreams/definition.ts';
import { type Exchange, type IdentifiedExchange, isToolCall } from './exchange.ts';
import type { ListedStage, Next, StageList, StageScope } from './stage.ts';

/** Is called when an exchange enters a stage, is passed on by it, comes back to it and leaves it. */
export type StageWatch = (stage: string, step: 'in' | 'on' | 'back' | 'out') => void;

/** Makes one function of a list. Every request passes all stages; `isNeeded` is not used. */
export function composeStages<Start, Out>({ stages, destination }: StageList<Start, Out>): Next<Start, Out> {
  return chainStages(stages, destination);
}

type RoutableExchange = IdentifiedExchange<Exchange> & { readonly upstream: Upstream | undefined };

/**
 * Makes one function of the request pipeline. A request passes only the stages that it needs: they are chosen when its
 * session is known, and again when its server is known. A choice is made once for each server and kind of request, and
 * kept until `revision` returns another number: the configuration or an approval has changed. The
 * watch is called at each step of each stage.
 */
export function composeRequestStages<Out>(
  { stages, destination }: StageList<Exchange, Out>,
  revision: () => number,
  watch?: StageWatch,
): Next<Exchange, Out> {
  const watched = watch === undefined ? stages : stages.map((stage) => watchStage(stage, watch));
  const end = watch === undefined ? destination : watchDestination(destination, watch);
  const afterSession = stages.findIndex(({ finds }) => finds === 'session') + 1;
  const afterServer = stages.findIndex(({ finds }) => finds === 'server') + 1;
  const toServer = chooseStages(
    watched.slice(afterServer),
    end,
    revision,
    ({ upstream }: RoutableExchange) => upstream,
  );
  const inSession = chooseStages(watched.slice(afterSession, afterServer), toServer, revision, () => undefined);
  return chainStages(watched.slice(0, afterSession), inSession as Next<Exchange, Out>);
}

function chooseStages<Out>(
  stages: readonly ListedStage<Out>[],
  next: Next<RoutableExchange, Out>,
  revision: () => number,
  upstreamOf: (exchange: RoutableExchange) => Upstream | undefined,
): Next<RoutableExchange, Out> {
  let chosenAt: number | undefined;
  // The key is the definition of the server, not its name: a request may still carry the definition from before a
  // reload.
  let chains = new Map<Upstream | undefined, Next<RoutableExchange, Out>[]>();

  function choose(
    { era, message, principal }: RoutableExchange,
    upstream: Upstream | undefined,
  ): Next<RoutableExchange, Out> {
    const scope: StageScope = { era, isToolCall: isToolCall(message), principal: principal.kind, upstream };
    return chainStages(
      stages.filter(({ isNeeded }) => isNeeded === undefined || isNeeded(scope)),
      next,
    );
  }

  return (exchange) => {
    const now = revision();
    if (now !== chosenAt) {
      chosenAt = now;
      chains = new Map();
    }
    const upstream = upstreamOf(exchange);
    let ofServer = chains.get(upstream);
    if (ofServer === undefined) {
      ofServer = [];
      chains.set(upstream, ofServer);
    }
    const index = scopeIndex(exchange);
    let chain = ofServer[index];
    if (chain === undefined) {
      chain = choose(exchange, upstream);
      ofServer[index] = chain;
    }
    return chain(exchange);
  };
}

const principals = ['session', 'user', 'local', 'anonymous'] as const;

/** Returns a number for everything in a scope except the server. */
function scopeIndex({ era, message, principal: { kind } }: RoutableExchange): number {
  return principals.indexOf(kind) * 4 + (era === 'modern' ? 2 : 0) + (isToolCall(message) ? 1 : 0);
}

function chainStages<Out>(
  stages: readonly ListedStage<Out>[],
  // biome-ignore lint/suspicious/noExplicitAny: the order of the stages was checked when they were listed.
  destination: Next<any, Out>,
  // biome-ignore lint/suspicious/noExplicitAny: as above.
): Next<any, Out> {
  return stages.reduceRight((next, stage) => connectStage(stage, next), destination);
}

function connectStage<Out>(stage: ListedStage<Out>, next: Next<object, Out>): Next<object, Out> {
  // The functions are read from the stage here, because V8 is slow at reading members of objects of many shapes.
  if ('around' in stage) {
    const { around } = stage;
    return (exchange) => around(exchange, next);
  }
  if ('after' in stage) {
    const { after } = stage;
    return (exchange) => next(exchange).then((reply) => after(exchange, reply));
  }
  const { before } = stage;
  return (exchange) => {
    const more: unknown = before(exchange);
    if (more === undefined) return next(exchange);
    if (more instanceof Promise) return more.then((late: object | undefined) => next(Object.assign(exchange, late)));
    return next(Object.assign(exchange, more));
  };
}

/** Wraps a stage so that the watch is called at each of its steps. */
function watchStage<Out>(stage: ListedStage<Out>, watch: StageWatch): ListedStage<Out> {
  const { name, refuses, isNeeded, finds } = stage;
  const optional = { ...(isNeeded === undefined ? {} : { isNeeded }), ...(finds === undefined ? {} : { finds }) };
  return {
    name,
    refuses,
    ...optional,
    async around(exchange, next) {
      watch(name, 'in');
      const passOn = async (further: object) => {
        watch(name, 'on');
        try {
          return await next(further);
        } finally {
          watch(name, 'back');
        }
      };
      try {
        return await connectStage(stage, passOn)(exchange);
      } finally {
        watch(name, 'out');
      }
    },
  };
}

function watchDestination<E, Out>(destination: Next<E, Out>, watch: StageWatch): Next<E, Out> {
  return async (exchange) => {
    watch(destination.name, 'in');
    try {
      return await destination(exchange);
    } finally {
      watch(destination.name, 'out');
    }
  };
}
