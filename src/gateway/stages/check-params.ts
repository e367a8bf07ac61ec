import { assertParamSizes } from '../../protocol/param-sizes.ts';
import { assertParamTypes } from '../../protocol/param-types.ts';
import type { Arrived } from '../exchange.ts';
import type { BeforeStage } from '../stage.ts';

/** Refuses a request whose tool, prompt or resource is ambiguous, and one whose client description is too large. */
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
