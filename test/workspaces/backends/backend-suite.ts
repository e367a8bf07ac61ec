import { afterAll, beforeAll, describe, onTestFinished } from 'vitest';
import type { WorkspaceBackend } from '../../../src/workspaces/backends/backend.ts';
import { describeMayWrite } from './suite/may-write.ts';
import { describeRaces } from './suite/races.ts';
import { describeReading } from './suite/reading.ts';
import { describeRules } from './suite/rules.ts';
import { type BackendGround, noRules, type Suite } from './suite/suite-workspace.ts';
import { describeTrees } from './suite/trees.ts';
import { describeWriting } from './suite/writing.ts';

export interface SuiteOptions {
  /** Whether the workspace can hold links; then the ground must be able to make them. */
  readonly links: boolean;
}

/** What holds for the files of a session wherever they lie. */
export function describeWorkspaceBackend(
  name: string,
  makeGround: () => Promise<BackendGround>,
  { links }: SuiteOptions,
): void {
  describe(`W5: a workspace that is ${name}`, () => {
    let ground: BackendGround;
    let files: WorkspaceBackend;
    let folders = 0;
    beforeAll(async () => {
      ground = await makeGround();
      files = await ground.open({ rules: noRules });
    });
    afterAll(async () => {
      await files.close();
      await ground.remove();
    });

    const suite: Suite = {
      links,
      ground: () => ground,
      files: () => files,
      async open(options) {
        const opened = await ground.open(options);
        onTestFinished(() => opened.close());
        return opened;
      },
      async folder() {
        const path = `t${++folders}`;
        await files.makeFolder(path);
        return path;
      },
    };

    describeReading(suite);
    describeWriting(suite);
    describeMayWrite(suite);
    describeTrees(suite);
    describeRaces(suite);
    describeRules(suite);
  });
}
