import { asAmbitError } from './as-ambit-error.ts';
import { absolutePath } from './backends/refusals.ts';
import { missingFile, type NamesIn } from './missing-file.ts';
import { SafeRootError } from './saferoot/saferoot-error.ts';

export interface Explaining {
  readonly namesIn: NamesIn;
  /** What an absolute path is called in the workspace, where it is called anything. */
  readonly relativeTo: (absolute: string) => Promise<string | undefined>;
}

/** Does the work; what fails is said in the words of the gateway, with what is there instead. */
export function createExplain({ namesIn, relativeTo }: Explaining) {
  return async function explain<T>(asked: string, work: () => Promise<T>): Promise<T> {
    try {
      return await work();
    } catch (error) {
      if (!(error instanceof SafeRootError)) throw error;
      const about = error.path ?? asked;
      if (error.code === 'FILE_NOT_FOUND') throw await missingFile(about, namesIn);
      if (error.code === 'PATH_VIOLATION' && about.startsWith('/')) throw absolutePath(await relativeTo(about));
      throw asAmbitError(error, about);
    }
  };
}
