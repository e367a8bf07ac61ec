import { View } from '../parts/card.tsx';

export function Rules() {
  return <View title="Rules">Placeholder</View>;
}
