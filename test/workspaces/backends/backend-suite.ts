import { afterAll, beforeAll, describe, onTestFinished } from 'vitest';
import type { WorkspaceBackend } from '../../../src/workspaces/backends/backend.ts';
import { describeMayWrite } from './suite/may-write.ts';
import { describeRaces } from './suite/races.ts';
import { describeReading } from './suite/reading.ts';
import { describeRules } from './suite/rules.ts';
import { noRules, type Suite, type SuiteWorkspace } from './suite/suite-workspace.ts';
import { describeTrees } from './suite/trees.ts';
import { describeWriting } from './suite/writing.ts';

export interface SuiteOptions {
  /** Whether the workspace can hold links; then the workspace must be able to make them. */
  readonly links: boolean;
}

/** Tests that hold for every backend. */
export function describeWorkspaceBackend(
  name: string,
  makeWorkspace: () => Promise<SuiteWorkspace>,
  { links }: SuiteOptions,
): void {
  describe(`W5: a workspace that is ${name}`, () => {
    let workspace: SuiteWorkspace;
    let files: WorkspaceBackend;
    let folders = 0;
    beforeAll(async () => {
      workspace = await makeWorkspace();
      files = await workspace.open({ rules: noRules });
    });
    afterAll(async () => {
      await files.close();
      await workspace.remove();
    });

    const suite: Suite = {
      links,
      workspace: () => workspace,
      files: () => files,
      async open(options) {
        const opened = await workspace.open(options);
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
