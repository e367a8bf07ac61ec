import { join } from 'node:path';
import { expect } from 'vitest';
import { ambitInProcess } from '../../cli/in-process.ts';
import type { RunningAmbit } from '../start-ambit.ts';

/** `ambit server approve`, beside a gateway that runs elsewhere. */
export async function approveServers({ folder, dataDir }: RunningAmbit, name: string): Promise<void> {
  const places = ['--config', join(folder, 'etc', 'ambit.yaml'), '--data-dir', dataDir];
  const { code, stderr } = await ambitInProcess(['server', 'approve', name, '--yes', ...places]);
  expect(code, stderr).toBe(0);
}
