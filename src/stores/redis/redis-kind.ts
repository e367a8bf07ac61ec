import { z } from 'zod';
import { AmbitError } from '../../errors.ts';
import type { StoreKind } from '../store-kinds.ts';

const settings = z.strictObject({
  url: z
    .string()
    .regex(/^(?:rediss?|unix):\/\/[^\s\u0000-\u001f]+$/, {
      error: 'expected an address that starts with redis://, rediss:// or unix://',
    })
    .describe('URL of the Redis or Valkey server.'),
});

export const redisKind: StoreKind = {
  settings,
  isDurable: true,
  async open(given, _dataDir, options) {
    if (given === undefined) throw new AmbitError('CONFIG_INVALID', { what: 'store.redis.url is missing.' });
    return (await import('./redis-store.ts')).openRedisStore({ ...options, ...settings.parse(given) });
  },
};
