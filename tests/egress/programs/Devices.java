import java.net.NetworkInterface;

// Lists the network devices, as build tools and servers do when they start.
public class Devices {
  public static void main(String[] arguments) throws Exception {
    NetworkInterface.networkInterfaces().forEach(device -> System.out.println("device " + device.getName()));
  }
}
