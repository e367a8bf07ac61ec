import { afterEach, beforeEach, expect, test } from 'vitest';
import { type Approvals, createApprovals } from '../../../src/upstreams/pins/approvals.ts';
import type { FetchedPackagePin } from '../../../src/upstreams/pins/server-pins.ts';
import { createProject, type Project } from './project.ts';

let project: Project;
let approvals: Approvals;
let fetched: FetchedPackagePin | undefined;
const one: FetchedPackagePin = { name: 'some-server', version: '1.0.0', integrity: 'sha512-one' };

beforeEach(() => {
  project = createProject();
  fetched = undefined;
  const { dataDir } = project;
  approvals = createApprovals({ dataDir, fetchedPackage: (command) => (command === 'npx' ? fetched : undefined) });
});
afterEach(() => {
  approvals.close();
  project.remove();
});

test('an approval pins the fetched package', async () => {
  const server = await project.server({ command: 'npx', args: ['-y', 'some-server'] });
  fetched = one;
  await approvals.approve(server);
  expect(approvals.check(server)).toEqual({ state: 'approved' });
  for (const other of [{ ...one, version: '1.0.1' }, { ...one, integrity: 'sha512-two' }, undefined]) {
    fetched = other;
    expect(approvals.check(server)).toMatchObject({ state: 'changed', changes: [{ place: 'package' }] });
  }
  fetched = { ...one };
  expect(approvals.check(server)).toEqual({ state: 'approved' });
});

test('a server that was approved before its package was fetched stays approved', async () => {
  const server = await project.server({ command: 'npx', args: ['-y', 'some-server'] });
  await approvals.approve(server);
  fetched = one;
  expect(approvals.check(server)).toEqual({ state: 'approved' });
});
