import { setImmediate as nextTurn } from 'node:timers/promises';
import { AmbitError } from '../../errors.ts';

/** The work that one request may make, with turns for others in between. */
export interface Effort {
  /** Throws when it is more than one request may make. */
  spend(steps: number): void;
  /** Lets others have a turn, where enough has been done since the last one. */
  giveWay(): Promise<void> | undefined;
}

/** A few milliseconds. */
const stepsInOneTurn = 500_000;
const mostSteps = 50_000_000;

/** The work of comparing addresses with templates: clients write the ones and servers the others. */
export function createEffort(): Effort {
  let spent = 0;
  let sinceTurn = 0;
  return {
    spend(steps) {
      spent += steps;
      sinceTurn += steps;
      if (spent <= mostSteps) return;
      throw new AmbitError('OVERLOADED', {
        what: 'So many and so long addresses are not compared with the templates of the servers in one request.',
        hint: 'Name fewer addresses at a time, or write "ambit+NAME:" with the name of its server in front of each.',
      });
    },
    giveWay() {
      if (sinceTurn < stepsInOneTurn) return undefined;
      sinceTurn = 0;
      return nextTurn();
    },
  };
}
