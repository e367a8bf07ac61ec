import { BlockList, isIPv4 } from 'node:net';
import { networkInterfaces } from 'node:os';
import { canonicalizeAddress, formatIpv4 } from './host-and-port.ts';

/** Loopback, private, link-local, shared, documentation, test, multicast and reserved ranges. */
const privateRanges = [
  ['0.0.0.0', 8],
  ['10.0.0.0', 8],
  ['100.64.0.0', 10],
  ['127.0.0.0', 8],
  ['169.254.0.0', 16],
  ['172.16.0.0', 12],
  ['192.0.0.0', 24],
  ['192.0.2.0', 24],
  ['192.88.99.0', 24],
  ['192.168.0.0', 16],
  ['198.18.0.0', 15],
  ['198.51.100.0', 24],
  ['203.0.113.0', 24],
  ['224.0.0.0', 3],
  // The metadata service of one cloud.
  ['168.63.129.16', 32],
] as const;
/** The public part of IPv6, without the ranges below. */
const publicRange = ['2000::', 3] as const;
const privateRanges6 = [
  ['2001::', 23],
  ['2001:db8::', 32],
  ['2002::', 16],
  ['3fff::', 20],
] as const;

const privateList = createBlockList(privateRanges, 'ipv4');
const privateList6 = createBlockList(privateRanges6, 'ipv6');
const publicList6 = createBlockList([publicRange], 'ipv6');

/** Whether an address is not on the public network. Only a rule that lists such an address itself may reach it. */
export function isPrivateAddress(address: string, ownAddresses: () => readonly string[] = listOwnAddresses): boolean {
  const canonical = canonicalizeAddress(address);
  if (canonical === undefined || ownAddresses().includes(canonical)) return true;
  if (isIPv4(canonical)) return privateList.check(canonical, 'ipv4');
  const embedded = readNat64Address(canonical);
  if (embedded !== undefined) return privateList.check(embedded, 'ipv4');
  return !publicList6.check(canonical, 'ipv6') || privateList6.check(canonical, 'ipv6');
}

/** Reads the IPv4 address inside a NAT64 address, as used in networks without IPv4. */
function readNat64Address(address: string): string | undefined {
  const [, first, second] = /^64:ff9b::(?:([0-9a-f]{1,4}):)?([0-9a-f]{1,4})$/.exec(address) ?? [];
  return second === undefined ? undefined : formatIpv4(first ?? '0', second);
}

function listOwnAddresses(): string[] {
  return Object.values(networkInterfaces()).flatMap((all) =>
    (all ?? []).map(({ address }) => canonicalizeAddress(address) ?? address),
  );
}

function createBlockList(ranges: readonly (readonly [string, number])[], family: 'ipv4' | 'ipv6'): BlockList {
  const list = new BlockList();
  for (const [address, bits] of ranges) list.addSubnet(address, bits, family);
  return list;
}
