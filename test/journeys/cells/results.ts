import type { ClientName } from '../clients/connect/connect-client.ts';
import type { Feature } from './feature-checks.ts';

export const entrances = ['/mcp', '/mcp/{server}', 'ambit stdio'] as const;
export type Entrance = (typeof entrances)[number];

/** `works`, or why it does not. */
export type Outcome =
  | { readonly kind: 'works' }
  | { readonly kind: 'named'; readonly reason: string }
  | { readonly kind: 'fails'; readonly reason: string };

export interface Result {
  readonly entrance: Entrance;
  readonly client: ClientName;
  readonly upstream: string;
  readonly outcomes: ReadonlyMap<Feature, Outcome>;
}
