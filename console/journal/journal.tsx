import { View } from '../parts/card.tsx';

export function Journal() {
  return <View title="Journal">Placeholder</View>;
}
