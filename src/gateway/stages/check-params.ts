import { assertParamSizes, assertParamTypes } from '../../protocol/param-checks.ts';
import type { Arrived } from '../exchange.ts';
import type { BeforeStage } from '../stage.ts';

/**
 * Refuses a request whose tool, prompt or resource cannot be read in exactly one way, and one that says more about its
 * client than is kept.
 */
export function checkParams(): BeforeStage<Arrived, void> {
  return {
    name: 'checkParams',
    refuses: ['REQUEST_INVALID', -32602],
    before({ message, era }) {
      assertParamSizes(message);
      assertParamTypes(message, era === 'handshake');
    },
  };
}
