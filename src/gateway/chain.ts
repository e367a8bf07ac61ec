/**
 * A corridor is a chain of stages. Each takes the exchange as it is and passes on a wider one, so that a stage put
 * before what it needs does not compile. What a stage does on the way back stands after its `await next(…)`; one that
 * does nothing there is a plain function that may throw: `record`, the outermost, catches both.
 */
export type Next<Here, Out> = (exchange: Here) => Promise<Out>;
export type Stage<Here, Further extends Here, Out> = (exchange: Here, next: Next<Further, Out>) => Promise<Out>;

export interface Journey<Start, Here, Out> {
  through<Further extends Here>(stage: Stage<Here, Further, Out>): Journey<Start, Further, Out>;
  to(destination: Next<Here, Out>): Next<Start, Out>;
}

/**
 * The exchange with more in it. It belongs to one request and to one stage at a time, so it grows in place: copies
 * of it, stage after stage, would be the dearest part of a call.
 */
export function widen<Here extends object, const More extends object>(exchange: Here, more: More): Here & More {
  return Object.assign(exchange, more);
}

/** Hears when an exchange comes into a stage, is passed on by it, comes back to it and leaves it. */
export type StageWatch = (stage: string, step: 'in' | 'on' | 'back' | 'out') => void;

/** With a watch, every stage is told of as it is passed; without one there is nothing around any of them. */
export function journeyFrom<Start, Out>(watch?: StageWatch): Journey<Start, Start, Out> {
  return grow<Start, Start, Out>((next) => next, watch);
}

function grow<Start, Here, Out>(
  close: (next: Next<Here, Out>) => Next<Start, Out>,
  watch: StageWatch | undefined,
): Journey<Start, Here, Out> {
  return {
    through(stage) {
      const placed = watch === undefined ? stage : watched(stage, watch);
      return grow((next) => close((exchange) => placed(exchange, next)), watch);
    },
    to: (destination) => close(watch === undefined ? destination : (exchange) => reached(destination, exchange, watch)),
  };
}

function watched<Here, Further extends Here, Out>(
  stage: Stage<Here, Further, Out>,
  watch: StageWatch,
): Stage<Here, Further, Out> {
  const { name } = stage;
  return async (exchange, next) => {
    watch(name, 'in');
    try {
      return await stage(exchange, async (further) => {
        watch(name, 'on');
        try {
          return await next(further);
        } finally {
          watch(name, 'back');
        }
      });
    } finally {
      watch(name, 'out');
    }
  };
}

async function reached<Here, Out>(destination: Next<Here, Out>, exchange: Here, watch: StageWatch): Promise<Out> {
  watch(destination.name, 'in');
  try {
    return await destination(exchange);
  } finally {
    watch(destination.name, 'out');
  }
}
