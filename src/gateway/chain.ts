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

export function journeyFrom<Start, Out>(): Journey<Start, Start, Out> {
  return grow<Start, Start, Out>((next) => next);
}

function grow<Start, Here, Out>(close: (next: Next<Here, Out>) => Next<Start, Out>): Journey<Start, Here, Out> {
  return {
    through: (stage) => grow((next) => close((exchange) => stage(exchange, next))),
    to: (destination) => close(destination),
  };
}
