import { type AnswerOf, RequestError } from '../api/request.ts';

type Edit = Pick<AnswerOf<'POST /api/v1/servers'>, 'reason'>;

/** Throws if the gateway does not use the changed configuration file, so that the dialog stays open and says why. */
export function requireReload({ reason }: Edit): void {
  if (reason === null) return;
  throw new RequestError(0, {
    detail: `The configuration file is changed, but the gateway does not use it yet: ${reason}`,
    hint: 'Correct the cause. The gateway reads the file again when it changes.',
  });
}
