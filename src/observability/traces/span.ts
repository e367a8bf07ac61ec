/** A span that is over. Times are milliseconds since 1970, with what is below them. */
export interface Span {
  readonly traceId: string;
  readonly spanId: string;
  readonly parentId: string | undefined;
  readonly name: string;
  readonly kind: 'server' | 'client';
  readonly from: number;
  readonly until: number;
  readonly failed: boolean;
  readonly attributes: Readonly<Record<string, string | boolean | undefined>>;
}
