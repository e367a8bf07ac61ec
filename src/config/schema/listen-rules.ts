import { isIPv4, isIPv6 } from 'node:net';
import type { ConfigProblem } from '../explain/problem.ts';
import { isMap } from './schema-parts.ts';

/** Tells whether a host is certainly loopback: 127.0.0.0/8, ::1 or localhost. */
export function isLoopbackHost(host: string): boolean {
  if (isIPv4(host)) return host.startsWith('127.');
  if (isIPv6(host)) return URL.canParse(`http://[${host}]`) && new URL(`http://[${host}]`).hostname === '[::1]';
  return host.toLowerCase() === 'localhost';
}

export interface ListenChoice {
  readonly host: string;
  readonly behindProxy: boolean;
  readonly anonymous: 'off' | 'loopback';
  readonly onInvalidKey: 'refuse' | 'anonymous';
}

/** Finds reasons not to listen like this. It is checked again when a flag changes the host. */
export function findListenProblems(choice: ListenChoice): ConfigProblem[] {
  const problems: ConfigProblem[] = [];
  const addProblem = (section: string, key: string, message: string): void => {
    problems.push({ path: [section, key], at: 'value', message });
  };
  const beyond = !isLoopbackHost(choice.host);
  if (beyond && !choice.behindProxy) {
    addProblem(
      'listen',
      'host',
      'this address is not loopback, and TLS is not supported yet; set behindProxy: true if a proxy in front terminates TLS',
    );
  }
  // A proxy makes every caller look local.
  if (beyond || choice.behindProxy) {
    const message = 'anonymous access is only allowed on a loopback listener that is not behind a proxy';
    if (choice.anonymous !== 'off') addProblem('auth', 'anonymous', message);
    if (choice.onInvalidKey !== 'refuse') addProblem('auth', 'onInvalidKey', message);
  }
  return problems;
}

/** Reads the choice of a file leniently; malformed values are reported elsewhere. */
export function readListenChoice(file: unknown): ListenChoice {
  const root = isMap(file) ? file : {};
  const listen = isMap(root['listen']) ? root['listen'] : {};
  const auth = isMap(root['auth']) ? root['auth'] : {};
  return {
    host: typeof listen['host'] === 'string' ? listen['host'] : '127.0.0.1',
    behindProxy: listen['behindProxy'] === true,
    anonymous: auth['anonymous'] === 'loopback' ? 'loopback' : 'off',
    onInvalidKey: auth['onInvalidKey'] === 'anonymous' ? 'anonymous' : 'refuse',
  };
}
