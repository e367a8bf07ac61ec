import { readFileSync } from 'node:fs';
import { join } from 'node:path';
import { repository } from '../start-ambit.ts';

/** A server that is compared with itself behind Ambit. It listens at `url`, and `command` starts it on stdio. */
export interface ComparedServer {
  readonly name: string;
  readonly url: string;
  readonly command?: string;
  readonly args?: readonly string[];
}

/** The fixture at this URL, and the servers of the file that AMBIT_FOREIGN_SERVERS names: a JSON list of `ComparedServer`. */
export function listComparedServers(fixtureUrl: string): ComparedServer[] {
  const stdio = join(repository, 'test/fixtures/conformance/stdio.js');
  const fixture = { name: 'fixture', url: fixtureUrl, command: process.execPath, args: [stdio] };
  const file = process.env.AMBIT_FOREIGN_SERVERS;
  return [fixture, ...(file ? (JSON.parse(readFileSync(file, 'utf8')) as ComparedServer[]) : [])];
}
