import { assertParamSizes, assertParamTypes } from '../../protocol/param-checks.ts';
import type { Exchange } from '../exchange.ts';
import type { BeforeStage } from '../stage.ts';

/** Refuses a request whose tool, prompt or resource is ambiguous, and one whose client description is too large. */
export function checkParams(): BeforeStage<Exchange, void> {
  return {
    name: 'checkParams',
    refuses: [-32602],
    before({ message, era }) {
      assertParamSizes(message);
      assertParamTypes(message, era === 'handshake');
    },
  };
}
