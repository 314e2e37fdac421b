import java.net.InetSocketAddress;
import java.nio.ByteBuffer;
import java.nio.channels.SelectionKey;
import java.nio.channels.SocketChannel;
import java.nio.charset.StandardCharsets;

// Connects as Netty does: the channel is in the selector's epoll before connect is called.
public class Selector {
  public static void main(String[] arguments) throws Exception {
    java.nio.channels.Selector selector = java.nio.channels.Selector.open();
    SocketChannel channel = SocketChannel.open();
    channel.configureBlocking(false);
    SelectionKey key = channel.register(selector, SelectionKey.OP_CONNECT);
    selector.selectNow();
    channel.connect(new InetSocketAddress(arguments[0], Integer.parseInt(arguments[1])));
    selector.select(10000);
    if (!key.isConnectable() || !channel.finishConnect()) throw new Exception("not connected");
    selector.selectedKeys().clear();
    channel.write(ByteBuffer.wrap("GET /epoll HTTP/1.0\r\n\r\n".getBytes(StandardCharsets.US_ASCII)));
    key.interestOps(SelectionKey.OP_READ);
    ByteBuffer answer = ByteBuffer.allocate(65536);
    while (selector.select(10000) > 0 && channel.read(answer) >= 0) selector.selectedKeys().clear();
    System.out.print(new String(answer.array(), 0, answer.position(), StandardCharsets.US_ASCII));
  }
}
