/**
 * A corridor is a chain of stages. Each takes the exchange as it is and passes on a wider one, so that a stage put
 * before what it needs does not compile. What a stage does on the way back stands after its `await next(…)`.
 */
export type Next<Here, Out> = (exchange: Here) => Promise<Out>;
export type Stage<Here, Further extends Here, Out> = (exchange: Here, next: Next<Further, Out>) => Promise<Out>;

export interface Journey<Start, Here, Out> {
  through<Further extends Here>(stage: Stage<Here, Further, Out>): Journey<Start, Further, Out>;
  to(destination: Next<Here, Out>): Next<Start, Out>;
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
